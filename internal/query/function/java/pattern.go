// SPDX-License-Identifier: Apache-2.0

package java

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/pattern"
)

// regularExpression compiles a regular expression. It uses Go's implementation, so the matching time is linear in the
// length of the text. Patterns that Go does not support, such as lookaround and backreferences, cause an exception.
func regularExpression(f *frame, text string) *pattern.Pattern {
	if len(text) > 1000 {
		panic(exhausted{what: "a regular expression of more than 1000 characters"})
	}
	f.step(20 * len(text))
	p, err := pattern.Compile(text)
	if errors.Is(err, pattern.ErrTooLarge) {
		panic(exhausted{what: "a regular expression that repeats too much"})
	}
	if err != nil {
		panic(&Thrown{"java.util.regex.PatternSyntaxException", err.Error(), true})
	}
	return p
}

// match compiles the regular expression of a String method and consumes the steps for matching. If whole is true, the
// pattern must match the whole text.
func match(f *frame, a []value, whole bool) (*pattern.Pattern, string) {
	s, expression := a[0].str(), notNull(f, a[1])
	if whole {
		expression = "^(?:" + expression + ")$"
	}
	p := regularExpression(f, expression)
	f.step(p.Cost(len(s)))
	return p, s
}

// replacement converts a replacement text to Go's syntax. It replaces $1 with ${1} and preserves escaped characters.
func replacement(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == '$' {
				b.WriteByte('$')
			}
			b.WriteByte(text[i])
		case c == '$' && i+1 < len(text) && isDigit(text[i+1]):
			b.WriteString("${" + text[i+1:i+2] + "}")
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func defPatterns() {
	def("String", "matches(String)boolean", func(f *frame, a []value) value {
		p, s := match(f, a, true)
		return ofBool(p.MatchString(s))
	})
	def("String", "replaceAll(String,String)String", func(f *frame, a []value) value {
		p, s := match(f, a, false)
		by := notNull(f, a[2])
		if (len(s)+1)*(len(by)+len(s)+1) > stringMax*8 {
			panic(exhausted{what: "a string of more than 2 MiB"})
		}
		return f.newString(p.ReplaceAllString(s, replacement(by)))
	})
	def("String", "replaceFirst(String,String)String", func(f *frame, a []value) value {
		p, s := match(f, a, false)
		at := p.FindStringSubmatchIndex(s)
		if at == nil {
			return a[0]
		}
		by := p.ExpandString(nil, replacement(notNull(f, a[2])), s, at)
		return f.newString(s[:at[0]] + string(by) + s[at[1]:])
	})
	split := func(f *frame, a []value, limit int) value {
		p, s := match(f, a, false)
		n := -1
		if limit > 0 {
			n = limit
		}
		parts := p.Split(s, n)
		if len(parts) > 1 && parts[0] == "" && s != "" {
			if at := p.FindStringIndex(s); at != nil && at[1] == 0 {
				parts = parts[1:] // an empty match at the beginning does not create a part
			}
		}
		for limit == 0 && len(parts) > 1 && parts[len(parts)-1] == "" {
			parts = parts[:len(parts)-1]
		}
		out := &array{elem: jString}
		f.alloc(len(s) + 40*len(parts))
		for _, part := range parts {
			out.of = append(out.of, ofRef(part))
		}
		return ofRef(out)
	}
	def("String", "split(String)String[]", func(f *frame, a []value) value { return split(f, a, 0) })
	def("String", "split(String,int)String[]", func(f *frame, a []value) value { return split(f, a, int(a[2].n)) })
	def("String", "toCharArray()char[]", func(f *frame, a []value) value {
		s := a[0].str()
		out := &array{elem: jChar}
		f.alloc(24 * len(s))
		for _, unit := range utf16.Encode([]rune(s)) {
			out.of = append(out.of, ofInt(int64(unit)))
		}
		return ofRef(out)
	})
}

// formatSteps is the number of steps for one conversion in String.format.
const formatSteps = 32

var formatSpec = regexp.MustCompile(`%([-+ 0,#(]*)(\d*)(\.\d+)?([a-zA-Z%])`)

// format implements String.format with the conversions d, s, f, x, X, c, b, e, n, and %.
func (f *frame) format(layout string, args []any) string {
	next := 0
	f.text(layout)
	return formatSpec.ReplaceAllStringFunc(layout, func(spec string) string {
		f.step(formatSteps)
		m := formatSpec.FindStringSubmatch(spec)
		if m[4] == "%" {
			return "%"
		}
		if m[4] == "n" {
			return "\n"
		}
		if len(m[2]) > 4 || len(m[3]) > 4 || strings.ContainsAny(m[1], ",(#") {
			throw("IllegalArgumentException", "the format %s is not supported", spec)
		}
		if next >= len(args) {
			throw("IllegalArgumentException", "Format specifier '%s'", spec)
		}
		arg := args[next]
		next++
		to := "%" + m[1] + m[2] + m[3] + m[4]
		b, isBox := arg.(box)
		switch {
		case m[4] == "s" || arg == nil:
			return fmt.Sprintf("%"+strings.Trim(m[1], "+ 0")+m[2]+m[3]+"s", f.string(arg))
		case m[4] == "b":
			return fmt.Sprintf("%"+m[1]+m[2]+"s", f.string(arg))
		case isBox && m[4] == "c":
			return fmt.Sprintf("%"+m[1]+m[2]+"s", text(value{n: b.n}, kChar))
		case isBox && strings.Contains("dxX", m[4]) && b.kind >= kByte && b.kind <= kLong:
			if m[4] != "d" && b.n < 0 {
				if b.kind == kLong {
					return fmt.Sprintf(to, uint64(b.n))
				}
				return fmt.Sprintf(to, uint32(b.n))
			}
			return fmt.Sprintf(to, b.n)
		case isBox && (m[4] == "f" || m[4] == "e") && (b.kind == kFloat || b.kind == kDouble):
			return fmt.Sprintf(to, value{n: b.n}.float())
		}
		if d, ok := arg.(cqltype.DecimalValue); ok && m[4] == "f" {
			v := decimalFloat(d)
			return fmt.Sprintf(to, v)
		}
		if m[4] == "d" && numberClass(arg) == "BigInteger" {
			return fmt.Sprintf("%"+strings.Trim(m[1], "0")+m[2]+"s", f.string(arg))
		}
		throw("IllegalArgumentException", "%s != %s", m[4], fullName(classOf(arg)))
		return ""
	})
}
