// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Functions executes user-defined functions. Errors end the run and are returned to its caller.
type Functions interface {
	// Call calls a function by its name without the udf prefix. The caller may reuse args afterward.
	Call(ctx context.Context, name string, args []document.Value) (document.Value, error)
}

// function is a built-in function. function does not retain args.
type function func(e *env, args []document.Value) document.Value

// builtin describes a built-in function.
type builtin struct {
	f        function
	min, max int // minimum and maximum number of arguments; max is -1 if there is no maximum
	// volatile prevents evaluation before the query runs.
	volatile bool
}

var builtins = func() map[string]builtin {
	all := map[string]builtin{}
	for _, part := range []map[string]builtin{stringFunctions, arrayFunctions, arrayNumberFunctions, mathFunctions,
		integerFunctions, typeFunctions, dateFunctions, convertFunctions, spatialFunctions, fullTextFunctions} {
		maps.Copy(all, part)
	}
	return all
}()

// isSpatial reports whether a name belongs to a spatial function.
func isSpatial(upper string) bool { return strings.HasPrefix(upper, "ST_") }

// textMax is the maximum size of a computed string, which is also the maximum size of an item.
const textMax = document.SizeMax

// text returns a string value of limited length.
func (e *env) text(s string) document.Value {
	if len(s) > textMax {
		return e.longText()
	}
	return document.StringValue(s)
}

func (e *env) longText() document.Value {
	return e.fail(&LimitError{"A string in the query exceeds 2 MB. Use shorter strings."})
}

// itemRID is the length of the resource ID of an item, in bytes.
const itemRID = 16

// typeFunctions contains the functions that check types and the functions that apply to whole items.
var typeFunctions = map[string]builtin{
	"IS_DEFINED": is(func(v document.Value) bool { return v.IsDefined() }),
	"IS_NULL":    isKind(document.Null),
	"IS_BOOL":    isKind(document.Boolean),
	"IS_NUMBER":  isKind(document.Number),
	"IS_STRING":  isKind(document.String),
	"IS_ARRAY":   isKind(document.Array),
	"IS_OBJECT":  isKind(document.Object),
	"IS_PRIMITIVE": is(func(v document.Value) bool {
		return v.IsDefined() && v.Kind() < document.Array
	}),
	"IS_FINITE_NUMBER": isKind(document.Number),
	"IS_INTEGER": is(func(v document.Value) bool {
		_, ok := integer(v)
		return ok
	}),
	"IS_DATETIME": is(func(v document.Value) bool {
		_, ok := plainTimeOf(v)
		return ok
	}),
	"DOCUMENTID": pure(1, 1, func(a []document.Value) document.Value {
		// The resource ID of an item ends with a hash that identifies the item in its container.
		rid := strings.ReplaceAll(a[0].Get("_rid").Str(), "-", "/")
		b, err := base64.StdEncoding.DecodeString(rid)
		if err != nil || len(b) != itemRID {
			return undefined
		}
		return document.IntegerValue(int64(binary.BigEndian.Uint64(b[itemRID-8:]) >> 1))
	}),
	"IIF": {f: func(_ *env, a []document.Value) document.Value {
		if a[0].IsTrue() {
			return a[1]
		}
		return a[2]
	}, min: 3, max: 3},
}

func is(holds func(document.Value) bool) builtin {
	return builtin{f: func(_ *env, a []document.Value) document.Value { return document.BooleanValue(holds(a[0])) },
		min: 1, max: 1}
}

func isKind(k document.Kind) builtin {
	return is(func(v document.Value) bool { return v.Kind() == k })
}

// pure returns a builtin that does not use the environment.
func pure(minArgs, maxArgs int, f func(a []document.Value) document.Value) builtin {
	return builtin{f: func(_ *env, a []document.Value) document.Value { return f(a) }, min: minArgs, max: maxArgs}
}

// all reports whether all values are of a kind.
func all(a []document.Value, k document.Kind) bool {
	for _, v := range a {
		if v.Kind() != k {
			return false
		}
	}
	return true
}
