// SPDX-License-Identifier: Apache-2.0

package document

import "strings"

// Step is a segment of an index path.
type Step struct {
	Name string
	// Elements means that the segment selects the elements of an array. It is written [] (or [0] and similar), and Name
	// is empty.
	Elements bool
}

// IndexPath is a path of an indexing policy. Examples are "/a/?" for the scalar at /a, "/a/[]/b/?" for b in the
// elements of a, and "/a/*" for all properties below /a. The root path includes all properties and is written /* or /.
type IndexPath struct {
	Steps []Step
	// Below is true if the path ends in an asterisk, and false if it ends in a question mark.
	Below bool
}

// ParseIndexPath parses a path of an indexing policy. Errors are of the type *PathError.
func ParseIndexPath(text string) (IndexPath, error) {
	if text == "/" {
		return IndexPath{Below: true}, nil
	}
	tokens, err := splitPath(text)
	if err != nil {
		return IndexPath{}, err
	}
	last := tokens[len(tokens)-1]
	if last.quoted || last.text != "?" && last.text != "*" {
		return IndexPath{}, &PathError{text, "it must end with /? (one property) or /* (all properties below)"}
	}
	p := IndexPath{Below: last.text == "*"}
	if len(tokens) == 1 && !p.Below {
		return IndexPath{}, &PathError{text, "/? does not specify a property; use /* for all properties"}
	}
	for _, t := range tokens[:len(tokens)-1] {
		switch {
		case !t.quoted && t.text[0] == '[' && strings.HasSuffix(t.text, "]"):
			if strings.Trim(t.text[1:len(t.text)-1], "0123456789") != "" {
				return IndexPath{}, &PathError{text, "write [] for the elements of an array"}
			}
			p.Steps = append(p.Steps, Step{Elements: true})
		case !t.quoted && (t.text == "?" || t.text == "*"):
			return IndexPath{}, &PathError{text, "? and * are allowed only at the end"}
		case !t.quoted && !isName(t.text) && t.text != "$systemmetadata":
			return IndexPath{}, &PathError{text, "'" + t.text + "' must be enclosed in quotes"}
		default:
			p.Steps = append(p.Steps, Step{Name: t.text})
		}
	}
	return p, nil
}

// Includes reports whether the path includes the property at steps.
func (p IndexPath) Includes(steps []Step) bool {
	if len(steps) < len(p.Steps) || !p.Below && len(steps) > len(p.Steps) {
		return false
	}
	for i, s := range p.Steps {
		if s != steps[i] {
			return false
		}
	}
	return true
}

// String returns the path in the format of ParseIndexPath.
func (p IndexPath) String() string {
	var b []byte
	for _, s := range p.Steps {
		if s.Name == "$systemmetadata" {
			b = append(append(b, '/'), s.Name...)
			continue
		}
		b = AppendStep(b, s)
	}
	if p.Below {
		return string(append(b, "/*"...))
	}
	return string(append(b, "/?"...))
}
