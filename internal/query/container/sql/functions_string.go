// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"errors"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/pattern"
)

// stringFunctions contains the string functions. The functions return Undefined if a string argument is not a string.
// Positions and lengths count UTF-16 units, as in JavaScript.
var stringFunctions = map[string]builtin{
	"CONCAT": {f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.String) {
			return undefined
		}
		size := 0
		for _, v := range a {
			if size += v.TextSize(); size > 2*textMax {
				return e.longText()
			}
		}
		var b strings.Builder
		for _, v := range a {
			if b.WriteString(v.Str()); b.Len() > textMax {
				break
			}
		}
		return e.text(b.String())
	}, min: 2, max: -1},
	"CONTAINS": search(strings.Contains),
	// CONTAINS_ALL_CI(s, a, b) is CONTAINS(s, a, true) AND CONTAINS(s, b, true). In a name, ANY stands for OR, and CS
	// stands for false.
	"CONTAINS_ALL_CI": containsEach(false, true),
	"CONTAINS_ALL_CS": containsEach(false, false),
	"CONTAINS_ANY_CI": containsEach(true, true),
	"CONTAINS_ANY_CS": containsEach(true, false),
	"STARTSWITH":      search(strings.HasPrefix),
	"ENDSWITH":        search(strings.HasSuffix),
	"STRINGEQUALS":    search(func(s, t string) bool { return s == t }),
	"LOWER":           mapText(3, strings.ToLower),
	"UPPER":           mapText(3, strings.ToUpper),
	"TRIM":            trim(strings.Trim),
	"LTRIM":           trim(strings.TrimLeft),
	"RTRIM":           trim(strings.TrimRight),
	"REVERSE": mapText(6, func(s string) string {
		r := []rune(s)
		for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
			r[i], r[j] = r[j], r[i]
		}
		return string(r)
	}),
	"LENGTH": pure(1, 1, func(a []document.Value) document.Value {
		if a[0].Kind() != document.String {
			return undefined
		}
		return document.NumberValue(float64(units(a[0].Str())))
	}),
	"LEFT": pure(2, 2, func(a []document.Value) document.Value {
		n, ok := integer(a[1])
		if a[0].Kind() != document.String || !ok {
			return undefined
		}
		return slice(a[0].Str(), 0, n)
	}),
	"RIGHT": pure(2, 2, func(a []document.Value) document.Value {
		n, ok := integer(a[1])
		if a[0].Kind() != document.String || !ok {
			return undefined
		}
		s := a[0].Str()
		return slice(s, max(0, units(s)-max(n, 0)), max(n, 0))
	}),
	"SUBSTRING": pure(3, 3, func(a []document.Value) document.Value {
		start, ok1 := integer(a[1])
		n, ok2 := integer(a[2])
		if a[0].Kind() != document.String || !ok1 || !ok2 {
			return undefined
		}
		return slice(a[0].Str(), start, n)
	}),
	"INDEX_OF": pure(2, 3, func(a []document.Value) document.Value {
		if !all(a[:2], document.String) {
			return undefined
		}
		s, from := a[0].Str(), 0
		if len(a) == 3 {
			n, ok := integer(a[2])
			if !ok {
				return undefined
			}
			from = len(slice(s, 0, max(n, 0)).Str())
		}
		at := strings.Index(s[from:], a[1].Str())
		if at < 0 {
			return document.NumberValue(-1)
		}
		return document.NumberValue(float64(units(s[:from+at])))
	}),
	"LASTINDEXOF": pure(2, 3, func(a []document.Value) document.Value {
		if !all(a[:2], document.String) {
			return undefined
		}
		s := a[0].Str()
		if len(a) == 3 {
			last, ok := integer(a[2]) // the position of the last unit that an occurrence can include
			if !ok {
				return undefined
			}
			s = slice(s, 0, max(last, -1)+1).Str()
		}
		at := strings.LastIndex(s, a[1].Str())
		if at < 0 {
			return document.NumberValue(-1)
		}
		return document.NumberValue(float64(units(s[:at])))
	}),
	"SUBSTRINGBEFORE":     around(strings.Index, true),
	"SUBSTRINGAFTER":      around(strings.Index, false),
	"LASTSUBSTRINGBEFORE": around(strings.LastIndex, true),
	"LASTSUBSTRINGAFTER":  around(strings.LastIndex, false),
	"REPLACE": {f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.String) {
			return undefined
		}
		s, from, to := a[0].Str(), a[1].Str(), a[2].Str()
		if from == "" {
			return a[0]
		}
		if len(s)+strings.Count(s, from)*(len(to)-len(from)) > textMax {
			return e.longText()
		}
		if !e.alloc(len(s) + strings.Count(s, from)*len(to)) {
			return undefined
		}
		return e.text(strings.ReplaceAll(s, from, to))
	}, min: 3, max: 3},
	"REPLICATE": {f: func(e *env, a []document.Value) document.Value {
		n, ok := integer(a[1])
		if a[0].Kind() != document.String || !ok || n < 0 || n > 10_000 {
			return undefined
		}
		s := a[0].Str()
		if len(s)*n > textMax {
			return e.longText()
		}
		if !e.work(len(s)*n/callBytes) || !e.alloc(len(s)*n) {
			return undefined
		}
		return e.text(strings.Repeat(s, n))
	}, min: 2, max: 2},
	"REGEXMATCH": {f: regexMatch, min: 2, max: 3},
	"STRINGJOIN": {f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.Array || a[1].Kind() != document.String {
			return undefined
		}
		var parts []string
		between, size := a[1].Str(), 0
		for v := range a[0].Elements() {
			if v.Kind() != document.String {
				return undefined
			}
			s := v.Str()
			if !e.work(1) || !e.alloc(3*stringBytes+2*len(s)+len(between)) {
				return undefined
			}
			parts = append(parts, s)
			if size += len(s) + len(between); size > textMax+len(between) {
				return e.longText()
			}
		}
		return e.text(strings.Join(parts, between))
	}, min: 2, max: 2},
	"STRINGSPLIT": {f: func(e *env, a []document.Value) document.Value {
		if !all(a, document.String) {
			return undefined
		}
		out := list{e: e}
		for part := range strings.SplitSeq(a[0].Str(), a[1].Str()) {
			if !out.add(document.StringValue(part)) {
				return undefined
			}
		}
		return out.array()
	}, min: 2, max: 2},
}

// stringBytes is the memory of a string excluding its text.
const stringBytes = 16

// search returns a function f(string, part [, ignoreCase]).
func search(f func(s, part string) bool) builtin {
	return pure(2, 3, func(a []document.Value) document.Value {
		if !all(a[:2], document.String) || len(a) == 3 && a[2].Kind() != document.Boolean {
			return undefined
		}
		s, t := a[0].Str(), a[1].Str()
		if len(a) == 3 && a[2].IsTrue() {
			s, t = strings.ToLower(s), strings.ToLower(t)
		}
		return document.BooleanValue(f(s, t))
	})
}

// around returns a function f(string, delimiter) that returns the part of the string before or after the delimiter that
// find locates. If the string does not contain the delimiter, the part is empty.
func around(find func(s, delimiter string) int, before bool) builtin {
	return pure(2, 2, func(a []document.Value) document.Value {
		if !all(a, document.String) {
			return undefined
		}
		s, delimiter := a[0].Str(), a[1].Str()
		switch at := find(s, delimiter); {
		case at < 0:
			return document.StringValue("")
		case before:
			return document.StringValue(s[:at])
		default:
			return document.StringValue(s[at+len(delimiter):])
		}
	})
}

// containsEach returns a function that searches a string for several strings. found is the decisive result: true if one
// match is sufficient, or false if all strings must match. If no search is decisive and one of the arguments is not a
// string, the result is undefined, as with AND and OR.
func containsEach(found, ignoreCase bool) builtin {
	return builtin{min: 2, max: -1, f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.String {
			return undefined
		}
		s := a[0].Str()
		if ignoreCase {
			s = strings.ToLower(s)
		}
		known := true
		for _, v := range a[1:] {
			part := v.Str()
			if ignoreCase {
				part = strings.ToLower(part)
			}
			switch {
			case !e.work((len(s) + len(part)) / callBytes):
				return undefined
			case v.Kind() != document.String:
				known = false
			case strings.Contains(s, part) == found:
				return document.BooleanValue(found)
			}
		}
		if !known {
			return undefined
		}
		return document.BooleanValue(!found)
	}}
}

// mapText returns a function f(string). bytes is the number of bytes allocated per byte of the string.
func mapText(bytes int, f func(string) string) builtin {
	return builtin{min: 1, max: 1, f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.String || !e.alloc(bytes*a[0].TextSize()) {
			return undefined
		}
		return e.text(f(a[0].Str()))
	}}
}

// trim returns a function f(string [, characters]).
func trim(f func(s, cutset string) string) builtin {
	return pure(1, 2, func(a []document.Value) document.Value {
		if !all(a, document.String) {
			return undefined
		}
		cutset := " \t\n\v\f\r\u00a0\ufeff\u2028\u2029"
		if len(a) == 2 {
			cutset = a[1].Str()
		}
		return document.StringValue(f(a[0].Str(), cutset))
	})
}

// integer returns a number without a fraction.
func integer(v document.Value) (int, bool) {
	f := v.Float()
	if v.Kind() != document.Number || f != float64(int64(f)) || f > 1<<53 || f < -1<<53 {
		return 0, false
	}
	return int(f), true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// units returns the length of s in UTF-16 units.
func units(s string) int {
	if isASCII(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// slice returns n UTF-16 units of s from position start, limited to the extent of s. Half of a surrogate pair becomes
// U+FFFD.
func slice(s string, start, n int) document.Value {
	if start < 0 || n <= 0 {
		return document.StringValue("")
	}
	if isASCII(s) {
		start = min(start, len(s))
		return document.StringValue(s[start : start+min(n, len(s)-start)])
	}
	u := utf16.Encode([]rune(s))
	start = min(start, len(u))
	return document.StringValue(string(utf16.Decode(u[start : start+min(n, len(u)-start)])))
}

// regexes caches a few recently compiled expressions. RE2 matches an expression in time that is linear in the length of
// the text.
type regexes struct {
	mu  sync.Mutex
	all map[string]*pattern.Pattern
}

const regexesMax = 64

var compiled = regexes{all: map[string]*pattern.Pattern{}}

// get compiles an expression. get returns nil if the expression is malformed. The error is pattern.ErrTooLarge if the
// expression is too large.
func (r *regexes) get(expression string) (*pattern.Pattern, error) {
	r.mu.Lock()
	re, ok := r.all[expression]
	r.mu.Unlock()
	if ok {
		return re, nil
	}
	re, err := pattern.Compile(expression)
	if errors.Is(err, pattern.ErrTooLarge) {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= regexesMax {
		clear(r.all)
	}
	r.all[expression] = re
	return re, nil
}

func regexMatch(e *env, a []document.Value) document.Value {
	if !all(a, document.String) {
		return undefined
	}
	flags, expression := "", a[1].Str()
	if len(a) == 3 {
		for _, r := range a[2].Str() {
			switch r {
			case 'm', 's', 'i':
				flags += string(r)
			case 'x':
				expression = strings.Join(strings.Fields(expression), "")
			default:
				return undefined
			}
		}
	}
	if flags != "" {
		expression = "(?" + flags + ")" + expression
	}
	if len(expression) > 4096 {
		return e.fail(&LimitError{"A regular expression exceeds 4096 bytes."})
	}
	re, err := compiled.get(expression)
	if err != nil {
		return e.fail(&LimitError{"A regular expression is too large. Reduce its repetitions or its length."})
	}
	if re == nil || !e.atOnce(re.Cost(a[0].TextSize())) {
		return undefined
	}
	return document.BooleanValue(re.MatchString(a[0].Str()))
}
