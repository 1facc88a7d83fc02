// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// convertFunctions contains functions that convert between strings and other values. A malformed string yields
// Undefined.
var convertFunctions = map[string]builtin{
	"STRINGTOARRAY":   parseAs(document.Array),
	"STRINGTOBOOLEAN": parseAs(document.Boolean),
	"STRINGTONULL":    parseAs(document.Null),
	"STRINGTONUMBER":  parseAs(document.Number),
	"STRINGTOOBJECT":  parseAs(document.Object),
	"TOSTRING": {f: func(e *env, a []document.Value) document.Value {
		switch a[0].Kind() {
		case document.Undefined:
			return undefined
		case document.String:
			return a[0]
		}
		return e.text(string(a[0].AppendCanonical(nil)))
	}, min: 1, max: 1},
}

// parseAs returns a function f(text) that parses a value of a kind from JSON.
func parseAs(k document.Kind) builtin {
	return pure(1, 1, func(a []document.Value) document.Value {
		if a[0].Kind() != document.String {
			return undefined
		}
		v, err := document.Parse([]byte(strings.TrimSpace(a[0].Str())), document.Limits{})
		if err != nil || v.Kind() != k {
			return undefined
		}
		return v
	})
}
