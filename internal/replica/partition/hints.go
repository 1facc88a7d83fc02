// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Hints reads the hints that writes have left for views, and the view keys of rows, in the span of a replica. It reads
// the state applied on this node.
type Hints struct {
	store Store
	span  keys.Span
}

// Hints returns a reader for the current span of the replica.
func (r *Replica) Hints() *Hints { return &Hints{r.host.store, r.state.Load().keys} }

// At returns the timestamp of a hint in this node's store. ok is false if none exists.
func (h *Hints) At(key []byte) (stamp int64, ok bool, err error) {
	return h.store.HintAt(key)
}

// Due passes on the due keys in the replica's span for the view of an index of hints, from a key on (nil: from the
// first), until fn returns false. Keys are valid during the call.
func (h *Hints) Due(index uint32, from []byte, fn func(key []byte, stamp int64) bool) error {
	prefix := keys.AppendIndexValue(nil, index, keys.HintStale)
	lower := append(bytes.Clone(prefix), h.span.Begin...)
	if bytes.Compare(from, lower) > 0 {
		lower = from
	}
	upper := keys.After(bytes.Clone(prefix))
	if len(h.span.End) > 0 {
		upper = append(prefix, h.span.End...)
	}
	return h.store.Hints(lower, upper, fn)
}

// DueSince reports whether a row has become due after a timestamp for the view of an index of hints, either through its
// own hint or through the hint of a range of its logical partition.
func (h *Hints) DueSince(index uint32, tok token.Token, key, clustering []byte, stamp int64) (since bool, err error) {
	row := keys.AppendIndex(nil, index, keys.HintStale, tok, key, keys.AppendStaleRow(nil, clustering))
	if at, ok, err := h.At(row); err != nil || ok && at > stamp {
		return true, err
	}
	if !h.store.HasDeletions(h.span.Table) {
		return false, nil // the hint of a range is written with the deletion of the range
	}
	lower, upper := keys.StaleRangeBounds()
	prefix := keys.AppendIndex(nil, index, keys.HintStale, tok, key, nil)
	err = h.store.Hints(append(bytes.Clone(prefix), lower...), append(prefix, upper...),
		func(_ []byte, at int64) bool {
			since = since || at > stamp
			return !since
		})
	return since, err
}

// ViewKeys passes on the view keys of rows of a logical partition with suffixes in [lower, upper). A nil upper is
// unbounded. fn is used as in Due.
func (h *Hints) ViewKeys(index uint32, tok token.Token, key, lower, upper []byte,
	fn func(place []byte, stamp int64) bool) error {
	prefix := keys.AppendIndex(nil, index, keys.HintViewRow, tok, key, nil)
	end := keys.After(bytes.Clone(prefix))
	if upper != nil {
		end = append(bytes.Clone(prefix), upper...)
	}
	return h.store.Hints(append(prefix, lower...), end, fn)
}
