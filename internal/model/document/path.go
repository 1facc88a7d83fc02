// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
	"unicode"
)

// PathError reports why a path was rejected.
type PathError struct{ Path, Message string }

func (e *PathError) Error() string {
	return fmt.Sprintf("The path '%s' is not valid: %s.", e.Path, e.Message)
}

// Path is the path from a document to a property. It lists the names of members, outermost first.
type Path []string

// ParsePath parses the path of a partition key or a unique key, such as /a or /a/b. Names consist of letters, digits,
// and underscores, or are quoted in the same way as JSON strings (/"level' 1*()"/"le/vel2"). Single quotes are also
// accepted. Errors are of the type *PathError.
func ParsePath(text string) (Path, error) {
	tokens, err := splitPath(text)
	if err != nil {
		return nil, err
	}
	path := make(Path, len(tokens))
	for i, t := range tokens {
		if !t.quoted && !isName(t.text) {
			return nil, &PathError{text, fmt.Sprintf("'%s' contains characters other than letters, digits, and _; "+
				"enclose it in quotes, as in /\"%s\"", t.text, t.text)}
		}
		path[i] = t.text
	}
	return path, nil
}

// String returns the path in the format of ParsePath. It adds quotes where they are required.
func (p Path) String() string {
	var b []byte
	for _, name := range p {
		b = append(b, '/')
		if isName(name) {
			b = append(b, name...)
		} else {
			b = AppendString(b, name)
		}
	}
	return string(b)
}

// Of returns the property at the path, or Undefined if the property does not exist. A path does not traverse arrays.
func (p Path) Of(v Value) Value {
	for _, name := range p {
		if v = v.Get(name); !v.IsDefined() {
			break
		}
	}
	return v
}

// KeyOf returns the property as a component of a partition key. An array or object is returned as Undefined.
func (p Path) KeyOf(v Value) Value {
	if v = p.Of(v); v.kind == Array || v.kind == Object {
		return Value{}
	}
	return v
}

// isName reports whether a segment requires no quotes.
func isName(s string) bool {
	for _, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return s != ""
}

// token is a segment of a path.
type token struct {
	text   string
	quoted bool
}

// splitPath splits a path at its slashes, except slashes in quotes.
func splitPath(text string) ([]token, error) {
	if text == "" || text[0] != '/' {
		return nil, &PathError{text, "it must start with /"}
	}
	var out []token
	for rest := text; rest != ""; {
		rest = rest[1:]
		if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
			t, after, ok := quoted(rest)
			if !ok {
				return nil, &PathError{text, "a quoted segment is not closed, or is not followed by /"}
			}
			out, rest = append(out, token{t, true}), after
			continue
		}
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, &PathError{text, "a segment is empty"}
		}
		out, rest = append(out, token{rest[:end], false}), rest[end:]
	}
	return out, nil
}

// quoted parses the quoted segment at the start of s and returns the rest.
func quoted(s string) (text, rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			rest = s[i+1:]
			return unescape(s[1:i]), rest, rest == "" || rest[0] == '/'
		}
	}
	return "", "", false
}
