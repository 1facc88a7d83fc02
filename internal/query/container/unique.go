// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"crypto/sha256"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// uniqueValueMax is the maximum length in bytes of unique key values that the index stores directly. The index stores a
// hash of longer values.
const uniqueValueMax = 256

// appendUnique appends the index value of a unique key. It consists of the canonical texts of the values at the key's
// paths, each followed by a zero byte. A missing property counts as null.
func appendUnique(dst []byte, paths []document.Path, body []byte) []byte {
	begin := len(dst)
	v := document.View(body)
	for _, p := range paths {
		if m := p.Of(v); m.IsDefined() {
			dst = m.AppendCanonical(dst)
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, 0)
	}
	if len(dst)-begin > uniqueValueMax {
		h := sha256.Sum256(dst[begin:])
		dst = append(dst[:begin], h[:]...)
	}
	return dst
}

// uniqueOps adds an item to the indexes of its unique keys. The entries are hints, because the index removes entries
// that no longer match their item.
func (c *Container) uniqueOps(clustering []byte, s *stored) (ops []command.Op) {
	for n, paths := range c.Definition.unique {
		if ix := c.table.UniqueIndex(n); ix != nil {
			ops = append(ops, command.Op{Kind: command.OpIndex, Clustering: clustering, Index: ix.ID,
				Value: appendUnique(nil, paths, s.body)})
		}
	}
	return ops
}

// unique rejects an item that has the same unique key values as another item in the logical partition. was is the
// previous version of the item, or nil. Unchanged values need no check.
func (t *Transaction) unique(ctx context.Context, id string, was, s *stored) (*Error, error) {
	for n, paths := range t.c.Definition.unique {
		value := appendUnique(nil, paths, s.body)
		if was != nil && bytes.Equal(value, appendUnique(nil, paths, was.body)) {
			continue
		}
		taken, bad, err := t.taken(ctx, n, id, value)
		switch {
		case bad != nil || err != nil:
			return bad, err
		case taken:
			return Errorf(409, 0, "Unique index constraint violation: another item of the logical partition has the "+
				"same values at the paths %v.", t.c.Definition.UniqueKeys[n]), nil
		}
	}
	return nil, nil
}

// taken reports whether an item with a different ID has the given value of unique key n.
func (t *Transaction) taken(ctx context.Context, n int, id string, value []byte) (bool, *Error, error) {
	paths, ix := t.c.Definition.unique[n], t.c.table.UniqueIndex(n)
	if ix == nil || t.engine.opts.Builds.Building(ix) {
		return false, Errorf(503, 0, "The index of the unique key %v is incomplete, because the container was restored from a "+
			"backup. Retry later.", t.c.Definition.UniqueKeys[n]), nil
	}
	var buf []byte
	has := func(body []byte) bool {
		buf = appendUnique(buf[:0], paths, body)
		return bytes.Equal(buf, value)
	}
	for other, o := range t.items {
		if other != id && o.changed && o.is != nil && has(o.is.body) {
			return true, nil, nil
		}
	}
	q := &command.Read{Table: t.c.table.ID, Key: t.keyBytes, Token: t.token, Now: t.now - deleteExpiredGrace,
		Index: &command.IndexLookup{Index: ix.ID, Value: value}}
	h := &holders{t: t, id: id, has: has}
	err := t.txn.Lookup(ctx, q, h)
	return h.found, nil, err
}

// deleteExpiredGrace is the minimum time in seconds between the expiry of an item and its deletion by another item that
// takes its unique key values. During this time, another node may not know that the container's time to live was
// changed before the expiry.
const deleteExpiredGrace = 60

// holders searches for items with the given unique key value among the items with a matching entry.
type holders struct {
	t     *Transaction
	id    string // the item to ignore
	has   func(body []byte) bool
	found bool
}

// Charge adds the charge of the lookup.
func (h *holders) Charge(u ru.Units) { h.t.charge += u }

// Partition implements command.Visitor.
func (h *holders) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (h *holders) Row(clustering []byte, r *row.Row) (command.Step, error) {
	id, err := h.t.c.idOf(clustering)
	if err != nil {
		return command.Stop, err
	}
	if o := h.t.items[id]; id == h.id || o != nil && o.changed {
		return command.More, nil
	}
	if t := h.t; t.c.lifetimes().At(t.now).Has(&r.Liveness) {
		t.deleteExpired(id, r)
		return command.More, nil
	} else if r.Live && r.Liveness.Expiry <= t.now {
		return command.More, nil
	}
	h.found = true
	return command.Stop, nil
}

// Holds implements partition.Holder.
func (h *holders) Holds(r *row.Row) bool {
	cell := r.Cell(h.t.c.columns.body)
	return cell != nil && h.has(cell.Value)
}
