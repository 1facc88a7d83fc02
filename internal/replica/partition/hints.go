// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Hints reads the hints of writes for views and the view keys of rows in a replica's span. It reads the state that this
// node has applied.
type Hints struct {
	store Store
	span  keys.Span
}

// Hints returns a reader for the current span of the replica.
func (r *Replica) Hints() *Hints { return &Hints{r.host.store, r.state.Load().keys} }

// At returns the timestamp of a hint in this node's store. ok is false if the hint does not exist.
func (h *Hints) At(key []byte) (stamp int64, ok bool, err error) {
	return h.store.HintAt(key)
}

// Due calls fn for the due keys in the replica's span until fn returns false. index identifies the hints of a view. Due
// starts at the key from, or at the first key if from is nil. A key is valid only during the call of fn.
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

// DueSince reports whether a row became due for a view after a timestamp, through the row's own hint or the hint of a
// range. index identifies the hints of the view.
func (h *Hints) DueSince(index uint32, tok token.Token, key, clustering []byte, stamp int64) (since bool, err error) {
	row := keys.AppendIndex(nil, index, keys.HintStale, tok, key, keys.AppendStaleRow(nil, clustering))
	if at, ok, err := h.At(row); err != nil || ok && at > stamp {
		return true, err
	}
	if !h.store.HasDeletions(h.span.Table) {
		return false, nil // a range hint exists only if the range was deleted
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

// ViewKeys calls fn for the view keys of a logical partition's rows with suffixes in [lower, upper). A nil upper is
// unbounded. fn has the same contract as in Due.
func (h *Hints) ViewKeys(index uint32, tok token.Token, key, lower, upper []byte,
	fn func(place []byte, stamp int64) bool) error {
	prefix := keys.AppendIndex(nil, index, keys.HintViewRow, tok, key, nil)
	end := keys.After(bytes.Clone(prefix))
	if upper != nil {
		end = append(bytes.Clone(prefix), upper...)
	}
	return h.store.Hints(append(prefix, lower...), end, fn)
}
