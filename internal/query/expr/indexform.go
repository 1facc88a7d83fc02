// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// IndexFormMax bounds the bytes that a storage-attached index has of a value. What begins alike is told apart by rows.
const IndexFormMax = 1024

// IndexForm is how an index has values: as they are, or those of storage-attached indexes analyzed and then in the form
// whose bytes are in their order, of which there are the first 1,024.
type IndexForm struct {
	// types are those of what is indexed, nil for values as they are.
	types    []*cqltype.Type
	analysis schema.Analysis
}

// FormOf is the form of an index on a column.
func FormOf(c *schema.Column, ix *schema.Index) IndexForm {
	if !ix.Attached() || ix.Near(c) {
		return IndexForm{} // entries for vectors are made of vectors
	}
	return IndexForm{ix.Indexed(c), ix.Analysis()}
}

// Ordered reports whether forms are in the order of values.
func (f *IndexForm) Ordered() bool { return f.types != nil }

// Append appends the form of a value that is neither null nor an entry of a map.
func (f *IndexForm) Append(dst, value []byte) []byte {
	if f.types == nil {
		return append(dst, value...)
	}
	if f.analysis.Any() {
		value = Analyze(f.analysis, value)
	}
	return f.cut(f.types[0].AppendKey(dst, value, false), len(dst))
}

// AppendEntry appends the form of an entry of a map.
func (f *IndexForm) AppendEntry(dst, key, value []byte) []byte {
	if f.types == nil {
		return AppendEntryValue(dst, key, value)
	}
	begin := len(dst)
	return f.cut(f.types[1].AppendKey(f.types[0].AppendKey(dst, key, false), value, false), begin)
}

// Cut reports whether a form may be that of longer values, too.
func (f *IndexForm) Cut(form []byte) bool { return len(form) >= IndexFormMax }

func (f *IndexForm) cut(dst []byte, begin int) []byte { return dst[:min(len(dst), begin+IndexFormMax)] }

// Analyze does to a text what an index does before it compares it. Bytes that are no UTF-8 stay as they are.
func Analyze(a schema.Analysis, text []byte) []byte {
	if a.Lower {
		text = lower(text)
	}
	if a.Normalize {
		text = normalize(text)
	}
	if a.ASCII {
		text = toASCII(text)
	}
	return text
}

// AnalyzedEqual reports whether two texts are equal once they are analyzed.
func AnalyzedEqual(a schema.Analysis, x, y []byte) bool {
	return bytes.Equal(x, y) || bytes.Equal(Analyze(a, x), Analyze(a, y))
}
