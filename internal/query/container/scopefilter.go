// SPDX-License-Identifier: Apache-2.0

package container

import (
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// within holds the limits of a scope that the token range of a read cannot express. A logical partition must satisfy
// all limits. The zero value accepts all logical partitions.
type within struct {
	spans  []topology.Span
	ranges []epk.Range
}

// holds reports whether a logical partition of a container is in the scope.
func (w *within) holds(d *Definition, tok token.Token, key []byte) bool {
	for i := range w.spans {
		if !w.spans[i].Holds(keys.At(tok, key)) {
			return false
		}
	}
	if len(w.ranges) == 0 {
		return true
	}
	k, err := epk.ParseKey(key, len(d.Paths))
	if err != nil {
		return false
	}
	at := d.Hash.Hash(nil, k)
	for _, r := range w.ranges {
		if !r.Holds(at) {
			return false
		}
	}
	return true
}

func (w *within) append(to *codec.Writer, table uint32) {
	to.Uint(uint64(len(w.spans)))
	for _, s := range w.spans {
		to.Bytes(s.Keys(table).Append(nil))
	}
	to.Uint(uint64(len(w.ranges)))
	for _, r := range w.ranges {
		to.Null(r.Min)
		to.Null(r.Max)
	}
}

// takeWithin decodes the output of append. Byte slices refer to the input.
func takeWithin(r *codec.Reader) (w within) {
	for range r.Count(1) {
		k, err := keys.DecodeSpan(r.Bytes())
		if err == nil {
			var s topology.Span
			s, err = topology.SpanOf(k)
			w.spans = append(w.spans, s)
		}
		if err != nil {
			r.Fail()
			return w
		}
	}
	for range r.Count(2) {
		w.ranges = append(w.ranges, epk.Range{Min: r.Null(), Max: r.Null()})
	}
	return w
}
