// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// A composite index entry combines all properties of the index. Its value begins with the text of the index: + or - and
// a path for each property, separated by nextPath. The text is followed by pathEnd and by the output of appendPart for
// each value. Every item has an entry, even if it has none of the properties.
const (
	ascends  = '+'
	descends = '-'
	// nextPath is a control character and therefore never part of a path's text.
	nextPath = 2
	// partEnd terminates the encoded form of a value. partEscape precedes each byte that is less than or equal to
	// partEscape, and 1 is added to that byte.
	partEnd    = 1
	partEscape = 2
)

// isComposite reports whether an entry value belongs to a composite index.
func isComposite(value []byte) bool {
	return len(value) > 1 && (value[0] == ascends || value[0] == descends)
}

// compositePrefix returns the prefix of all entry values of a composite index. It returns nil if the index has no
// entries because its paths are too long, or because they name properties that clients see but the item does not
// store.
func compositePrefix(index []CompositePath) (out []byte) {
	for i, p := range index {
		if first := p.Path[0]; first != document.TimeMember && document.IsSystem(first) {
			return nil
		}
		if i > 0 {
			out = append(out, nextPath)
		}
		order, text := byte(ascends), p.Path.String()
		if p.Descending {
			order = descends
		}
		if len(text) > pathBytesMax {
			return nil
		}
		out = append(append(out, order), text...)
	}
	return append(out, pathEnd)
}

// compositeOf returns the composite index of a prefix.
func compositeOf(prefix []byte) (out []CompositePath) {
	for text := range bytes.SplitSeq(bytes.TrimSuffix(prefix, []byte{pathEnd}), []byte{nextPath}) {
		path, err := document.ParsePath(string(text[1:]))
		if err != nil {
			return nil
		}
		out = append(out, CompositePath{path, text[0] == descends})
	}
	return out
}

// appendEscaped appends all of a value's encoded form or the beginning of it, and escapes the terminator.
func appendEscaped(dst, form []byte) []byte {
	for _, b := range form {
		if b <= partEscape {
			dst = append(dst, partEscape, b+1)
		} else {
			dst = append(dst, b)
		}
	}
	return dst
}

// appendPart appends the value of a property. Undefined sorts before all other values.
func appendPart(dst []byte, v document.Value, descending bool) []byte {
	var scratch [document.FormBytesMax + 16]byte
	start := len(dst)
	dst = append(appendEscaped(dst, document.AppendForm(scratch[:0], v)), partEnd)
	if descending {
		complement(dst[start:])
	}
	return dst
}

func complement(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// valueAtPath returns the value of an item at a path.
func valueAtPath(path document.Path, body document.Value, ts int64) document.Value {
	if len(path) == 1 && path[0] == document.TimeMember {
		return document.IntegerValue(ts)
	}
	return path.Of(body)
}

// appendComposite appends the value of an item's entry in a composite index to the prefix of the index.
func appendComposite(dst []byte, index []CompositePath, body []byte, ts int64) []byte {
	item := document.View(body)
	for _, p := range index {
		dst = appendPart(dst, valueAtPath(p.Path, item, ts), p.Descending)
	}
	return dst
}

// isExactComposite reports whether all items with an entry value have identical property values.
func isExactComposite(value []byte) bool {
	end := bytes.IndexByte(value, pathEnd)
	if end < 0 {
		return false
	}
	rest := bytes.Clone(value[end+1:])
	for text := range bytes.SplitSeq(value[:end], []byte{nextPath}) {
		var form []byte
		stop := byte(partEnd)
		if text[0] == descends {
			stop = ^stop
		}
		i := 0
		for ; i < len(rest) && rest[i] != stop; i++ {
			b := rest[i]
			if text[0] == descends {
				b = ^b
			}
			if b == partEscape && i+1 < len(rest) {
				i++
				if b = rest[i]; text[0] == descends {
					b = ^b
				}
				b--
			}
			form = append(form, b)
		}
		if len(form) > 0 && !document.IsExact(form) {
			return false
		}
		rest = rest[min(i+1, len(rest)):]
	}
	return true
}

// beyond returns a bound above all values that begin with b, where prefix is the index prefix of b.
func beyond(prefix, b []byte) []byte {
	return keys.After(append(bytes.Clone(prefix), b...))
}

// specsOf returns a composite index in the notation of index metrics: /a ASC, /b DESC.
func specsOf(index []CompositePath) []string {
	out := make([]string, len(index))
	for i, p := range index {
		order := " ASC"
		if p.Descending {
			order = " DESC"
		}
		out[i] = p.Path.String() + order
	}
	return out
}

// compositeJSON returns a composite index in the JSON notation of an indexing policy.
func compositeJSON(index []CompositePath) string {
	parts := make([]string, len(index))
	for i, p := range index {
		order := "ascending"
		if p.Descending {
			order = "descending"
		}
		parts[i] = `{"path":` + document.StringValue(p.Path.String()).String() + `,"order":"` + order + `"}`
	}
	return "[" + strings.Join(parts, ",") + "]"
}
