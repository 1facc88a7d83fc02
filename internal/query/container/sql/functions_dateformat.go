// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
)

// plainTime is the form of times that IS_DATETIME accepts.
var plainTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,7})?)?Z?$`)

// plainTimeOf parses a time that IS_DATETIME accepts.
func plainTimeOf(v document.Value) (time.Time, bool) {
	if v.Kind() != document.String || v.TextSize() > plainTimeMax || !plainTime.MatchString(v.Str()) {
		return time.Time{}, false
	}
	s := strings.TrimSuffix(strings.Replace(v.Str(), " ", "T", 1), "Z")
	layout := "2006-01-02T15:04:05"
	if !strings.Contains(s, "T") {
		layout = time.DateOnly
	}
	t, err := time.Parse(layout, s)
	return t, err == nil
}

// plainTimeMax exceeds the size of every time that IS_DATETIME accepts, including quotes.
const plainTimeMax = 40

// dateTimeFormat formats a time with the specifiers of custom format strings of .NET, in the invariant culture. A
// character that is not a specifier is copied unchanged. A character after \ and characters in quotes are also copied
// unchanged.
func dateTimeFormat(e *env, a []document.Value) document.Value {
	t, ok := plainTimeOf(a[0])
	if !ok {
		t, ok = timeOf(a[0])
	}
	if !ok || a[1].Kind() != document.String {
		return undefined
	}
	format := a[1].Str()
	var out []byte
	for i := 0; i < len(format); {
		c := format[i]
		switch {
		case c == '\\' || c == '%':
			if i++; i == len(format) {
				return undefined
			}
			if c == '\\' {
				out = append(out, format[i])
				i++
			}
			continue
		case c == '\'' || c == '"':
			length := strings.IndexByte(format[i+1:], c)
			if length < 0 {
				return undefined
			}
			out = append(out, format[i+1:i+1+length]...)
			i += length + 2
			continue
		}
		n := 1
		for i+n < len(format) && format[i+n] == c && strings.IndexByte(dateSpecifiers, c) >= 0 {
			n++
		}
		if out, ok = appendDatePart(out, t, c, n); !ok {
			return undefined
		}
		i += n
		if len(out) > textMax {
			return e.longText()
		}
	}
	if !e.alloc(len(out)) {
		return undefined
	}
	return e.text(string(out))
}

// dateSpecifiers contains the characters that a format string repeats to select a form of the value.
const dateSpecifiers = "dfFgHhKmMstyz"

// appendDatePart appends the value of a specifier that the format string repeats n times. It returns false if the
// specifier cannot be repeated n times.
func appendDatePart(b []byte, t time.Time, specifier byte, n int) ([]byte, bool) {
	named := func(value int, name string) []byte {
		switch n {
		case 1, 2:
			return appendPadded(b, value, n)
		case 3:
			return append(b, name[:3]...)
		}
		return append(b, name...)
	}
	switch specifier {
	case 'd':
		return named(t.Day(), t.Weekday().String()), true
	case 'M':
		return named(int(t.Month()), t.Month().String()), true
	case 'y':
		if n <= 2 {
			return appendPadded(b, t.Year()%100, n), true
		}
		return appendPadded(b, t.Year(), n), n <= textMax
	case 'H':
		return appendPadded(b, t.Hour(), min(n, 2)), true
	case 'h':
		return appendPadded(b, (t.Hour()+11)%12+1, min(n, 2)), true
	case 'm':
		return appendPadded(b, t.Minute(), min(n, 2)), true
	case 's':
		return appendPadded(b, t.Second(), min(n, 2)), true
	case 't':
		half := t.Format("PM")
		return append(b, half[:min(n, 2)]...), true
	case 'f', 'F':
		if n > 7 {
			return b, false
		}
		digits := strconv.Itoa(t.Nanosecond()/100 + 10_000_000)[1 : n+1]
		if specifier == 'F' {
			digits = strings.TrimRight(digits, "0")
		}
		return append(b, digits...), true
	case 'g':
		return append(b, "A.D."...), true
	case 'K':
		return append(b, 'Z'), true
	case 'z':
		return append(b, [...]string{"+0", "+00", "+00:00"}[min(n, 3)-1]...), true
	}
	return append(b, specifier), true
}

// appendPadded appends a number with at least the given number of digits.
func appendPadded(b []byte, value, digits int) []byte {
	s := strconv.Itoa(value)
	for range digits - len(s) {
		b = append(b, '0')
	}
	return append(b, s...)
}
