// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// IndexFormMax is the maximum size in bytes of a value in a storage-attached index. A longer value is truncated.
// Searches must read the rows to distinguish longer values with the same prefix.
const IndexFormMax = 1024

// IndexForm is the form of values in an index. Storage-attached indexes contain analyzed values in a byte-comparable
// form that is truncated to 1,024 bytes. Other indexes contain unmodified values.
type IndexForm struct {
	// types holds the types of the indexed values. If the index contains unmodified values, types is nil.
	types    []*cqltype.Type
	analysis schema.Analysis
}

// FormOf returns the form of an index on a column.
func FormOf(c *schema.Column, ix *schema.Index) IndexForm {
	if !ix.Attached() || ix.SupportsANN(c) {
		return IndexForm{} // vector entries are computed from vectors
	}
	return IndexForm{ix.Indexed(c), ix.Analysis()}
}

// Ordered reports whether the forms have the same order as the values.
func (f *IndexForm) Ordered() bool { return f.types != nil }

// Append appends the form of a value that is neither null nor a map entry.
func (f *IndexForm) Append(dst, value []byte) []byte {
	if f.types == nil {
		return append(dst, value...)
	}
	if f.analysis.Any() {
		value = Analyze(f.analysis, value)
	}
	return f.cut(f.types[0].AppendKey(dst, value, false), len(dst))
}

// AppendEntry appends the form of a map entry.
func (f *IndexForm) AppendEntry(dst, key, value []byte) []byte {
	if f.types == nil {
		return AppendEntryValue(dst, key, value)
	}
	begin := len(dst)
	return f.cut(f.types[1].AppendKey(f.types[0].AppendKey(dst, key, false), value, false), begin)
}

// Cut reports whether a form may have been truncated. A truncated form may represent several values.
func (f *IndexForm) Cut(form []byte) bool { return len(form) >= IndexFormMax }

func (f *IndexForm) cut(dst []byte, begin int) []byte { return dst[:min(len(dst), begin+IndexFormMax)] }

// Analyze applies the analysis of an index to a text. Invalid UTF-8 bytes remain unchanged.
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

// AnalyzedEqual reports whether two texts are equal after analysis.
func AnalyzedEqual(a schema.Analysis, x, y []byte) bool {
	return bytes.Equal(x, y) || bytes.Equal(Analyze(a, x), Analyze(a, y))
}
