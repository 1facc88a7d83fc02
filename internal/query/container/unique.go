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

// uniqueValueMax is how long the values of a unique key may be to stand in its index as they are; longer ones stand
// there as a hash.
const uniqueValueMax = 256

// appendUnique appends the value by which an index holds the values of a unique key's paths: their canonical texts,
// each with a zero behind it. A missing path counts as null.
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

// uniqueOps enter an item into the indexes of its unique keys. Entries are hints, and go when they are no longer true.
func (c *Container) uniqueOps(clustering []byte, s *stored) (ops []command.Op) {
	for n, paths := range c.Definition.unique {
		if ix := c.table.UniqueIndex(n); ix != nil {
			ops = append(ops, command.Op{Kind: command.OpIndex, Clustering: clustering, Index: ix.ID,
				Value: appendUnique(nil, paths, s.body)})
		}
	}
	return ops
}

// unique refuses an item whose unique keys another item of the logical partition has. was is the item before, nil if
// there is none: values that it has are its own already.
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
			return Errorf(409, 0, "Unique index constraint violation: the logical partition has another item with the "+
				"values of the paths %v.", t.c.Definition.UniqueKeys[n]), nil
		}
	}
	return nil, nil
}

// taken reports whether an item of another id has a value of the unique key n.
func (t *Transaction) taken(ctx context.Context, n int, id string, value []byte) (bool, *Error, error) {
	paths, ix := t.c.Definition.unique[n], t.c.table.UniqueIndex(n)
	if ix == nil || t.engine.opts.Building(ix) {
		return false, Errorf(503, 0, "The index of the unique key %v is not complete: the container was restored from a "+
			"backup. Try again later.", t.c.Definition.UniqueKeys[n]), nil
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
	q := &command.Read{Table: t.c.table.ID, Key: t.keyBytes, Token: t.token, Now: t.now - buryGrace,
		Index: &command.IndexLookup{Index: ix.ID, Value: value}}
	h := &holders{t: t, id: id, has: has}
	err := t.txn.Lookup(ctx, q, h)
	return h.found, nil, err
}

// buryGrace is for how many seconds after an item has expired another one that takes a value of its unique keys deletes
// it: another node may not know yet that the time to live of the container was changed before the item had expired.
const buryGrace = 60

// holders looks for an item that has the value of a unique key, among those that have an entry of it.
type holders struct {
	t     *Transaction
	id    string // is not looked for
	has   func(body []byte) bool
	found bool
}

// Charge hears of the price of the lookup.
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
		t.bury(id, r)
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
