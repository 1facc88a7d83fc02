// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
	"unicode"
)

// PathError says why a path was refused.
type PathError struct{ Path, Message string }

func (e *PathError) Error() string {
	return fmt.Sprintf("The path '%s' is not valid: %s.", e.Path, e.Message)
}

// Path leads from a document to a property: the names of members, outermost first.
type Path []string

// ParsePath reads the path of a partition key or a unique key: /a or /a/b, the names of letters, digits and underscores
// or quoted as JSON strings are (/"level' 1*()"/"le/vel2"; single quotes do, too). Errors are *PathError.
func ParsePath(text string) (Path, error) {
	tokens, err := splitPath(text)
	if err != nil {
		return nil, err
	}
	path := make(Path, len(tokens))
	for i, t := range tokens {
		if !t.quoted && !isName(t.text) {
			return nil, &PathError{text, fmt.Sprintf("'%s' has characters that are neither letters, digits nor _; "+
				"write it in quotes, as in /\"%s\"", t.text, t.text)}
		}
		path[i] = t.text
	}
	return path, nil
}

// String returns the path as ParsePath reads it, with quotes where they are needed.
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

// Of returns the property that the path leads to, and Undefined if there is none. A path does not lead into arrays.
func (p Path) Of(v Value) Value {
	for _, name := range p {
		if v = v.Get(name); !v.IsDefined() {
			break
		}
	}
	return v
}

// KeyOf returns the property as a component of a partition key: an array or object counts as none, Undefined.
func (p Path) KeyOf(v Value) Value {
	if v = p.Of(v); v.kind == Array || v.kind == Object {
		return Value{}
	}
	return v
}

// isName reports whether a segment needs no quotes.
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

// splitPath cuts a path at its slashes, those in quotes aside.
func splitPath(text string) ([]token, error) {
	if text == "" || text[0] != '/' {
		return nil, &PathError{text, "it has to begin with /"}
	}
	var out []token
	for rest := text; rest != ""; {
		rest = rest[1:]
		if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
			t, after, ok := quoted(rest)
			if !ok {
				return nil, &PathError{text, "a quoted segment does not end, or is not followed by /"}
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

// quoted reads the quoted segment at the beginning of s and returns what is after it.
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
