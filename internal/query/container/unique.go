// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"crypto/sha256"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
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
		ops = append(ops, command.Op{Kind: command.OpIndex, Clustering: clustering, Index: c.table.UniqueIndex(n).ID,
			Value: appendUnique(nil, paths, s.body)})
	}
	return ops
}

// unique refuses an item whose unique keys another item of the logical partition has.
func (t *Transaction) unique(ctx context.Context, id string, s *stored) (*Error, error) {
	for n, paths := range t.c.Definition.unique {
		want := string(appendUnique(nil, paths, s.body))
		has := func(body []byte) bool { return string(appendUnique(nil, paths, body)) == want }
		l := &collector{t: t}
		q := &command.Read{Table: t.c.table.ID, Key: t.keyBytes, Token: t.token, Now: t.now,
			Index: &command.IndexLookup{Index: t.c.table.UniqueIndex(n).ID, Value: []byte(want)}}
		if err := t.txn.Read(ctx, q, l); err != nil {
			return nil, err
		}
		taken := false
		for i := range l.items {
			f := &l.items[i]
			other := t.items[f.id]
			taken = taken || f.id != id && (other == nil || !other.changed) && has(f.body)
		}
		for other, o := range t.items {
			taken = taken || other != id && o.changed && o.is != nil && has(o.is.body)
		}
		if taken {
			return Errorf(409, 0, "Unique index constraint violation: the logical partition has another item with the "+
				"values of the paths %v.", t.c.Definition.UniqueKeys[n]), nil
		}
	}
	return nil, nil
}
