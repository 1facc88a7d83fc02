// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// An entry of a composite index is that of all its properties: its text, which is + or - and a path for each of them,
// with nextPath between two, then pathEnd, and what appendPart makes of each value. Every item has one, also where it
// has none of the properties.
const (
	ascends  = '+'
	descends = '-'
	// nextPath is in no text of a path, as it is a control character.
	nextPath = 2
	// partEnd ends the form of a value, and partEscape stands before a byte that is not above it and has one added.
	partEnd    = 1
	partEscape = 2
)

// isComposite reports whether the value of an entry is of a composite index.
func isComposite(value []byte) bool {
	return len(value) > 1 && (value[0] == ascends || value[0] == descends)
}

// compositePrefix is what the values of the entries of a composite index begin with, nil if it has none: of paths that
// are too long, or that clients see and items do not have.
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

// compositeOf is the index that a prefix is of.
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

// appendEscaped appends a form, or the beginning of one, so that no end is in it.
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

// appendPart appends the value of a property. Undefined is below all others.
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

// valueAtPath is what an item has at a path.
func valueAtPath(path document.Path, body document.Value, ts int64) document.Value {
	if len(path) == 1 && path[0] == document.TimeMember {
		return document.IntegerValue(ts)
	}
	return path.Of(body)
}

// appendComposite appends the value of the entry that an item has in a composite index, behind its prefix.
func appendComposite(dst []byte, index []CompositePath, body []byte, ts int64) []byte {
	item := document.View(body)
	for _, p := range index {
		dst = appendPart(dst, valueAtPath(p.Path, item, ts), p.Descending)
	}
	return dst
}

// isExactComposite reports whether all items with a value of an entry of a composite index have the same values.
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

// beyond is what is above everything that begins with b, that being what comes behind prefix.
func beyond(prefix, b []byte) []byte {
	return keys.After(append(bytes.Clone(prefix), b...))
}

// specsOf is a composite index as index metrics have it: /a ASC, /b DESC.
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

// compositeJSON is a composite index as a policy has it.
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
