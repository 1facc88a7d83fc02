// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// LookupVisitor is the visitor of Txn.Lookup.
type LookupVisitor interface {
	command.Visitor
	// Holds reports whether a row has the value of the lookup. The visitor receives only these rows.
	Holds(r *row.Row) bool
}

// These are the limits for stale entries. A lookup removes up to staleMax stale entries if it finds more than staleKept
// of them, or if it has read more than staleKeptBytes for them.
const (
	staleKept      = 4
	staleKeptBytes = 64 << 10
	staleMax       = 64
)

// Lookup passes the rows that have a value in an index to v. Otherwise, it works like Read. Stale entries count toward
// the time limit of the transaction, but not toward the other limits. Lookup removes stale entries from this node's
// index if their cost is too high.
func (t *Txn) Lookup(ctx context.Context, q *command.Read, v LookupVisitor) error {
	if t.failed == nil {
		t.failed = t.lookup(ctx, q, v)
	}
	return t.failed
}

func (t *Txn) lookup(ctx context.Context, q *command.Read, v LookupVisitor) error {
	if err := t.checkKey(q.Table, q.Key); err != nil {
		return err
	}
	l := &lookupVisitor{LookupVisitor: v, t: t, ctx: ctx, q: q}
	q.Level = dberr.Serial
	err := t.pinned.Read(ctx, q, l)
	t.rows += l.rows
	t.bytes += l.bytes
	price := l.m.Price(q)
	t.price += price
	if l.entries > staleKept || l.staleBytes > staleKeptBytes {
		// Stale entries are removed even if this lookup has failed, so that the next lookup is faster.
		if bad := t.replica.host.store.RemoveStale(q, l.stale); err == nil {
			err = bad
		}
	}
	if err != nil {
		return err
	}
	ru.Tell(v, price)
	return checkMaxCharge(t.c, t.price)
}

// lookupVisitor is the visitor of a lookup. It stores the clustering keys of stale entries.
type lookupVisitor struct {
	LookupVisitor
	t   *Txn
	ctx context.Context
	q   *command.Read

	m           ru.Meter
	rows, bytes int64

	stale      [][]byte
	entries    int64 // number of stale entries
	staleBytes int64
}

// Entry implements command.EntryVisitor. It treats the entry as stale until Row is called for the entry's row.
func (l *lookupVisitor) Entry(clustering []byte) error {
	if len(l.stale) < staleMax {
		l.stale = append(l.stale, bytes.Clone(clustering))
	}
	l.entries++
	return l.ctx.Err()
}

// Partition implements command.Visitor.
func (l *lookupVisitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	l.m.Partition(l.q, key, static)
	return l.LookupVisitor.Partition(tok, key, static)
}

// Row implements command.Visitor.
func (l *lookupVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	l.m.Row(clustering, r)
	size := int64(len(l.q.Key) + len(clustering) + r.Size())
	if !l.Holds(r) {
		l.staleBytes += size
		return command.More, nil
	}
	l.entries--
	if n := len(l.stale); n > 0 && bytes.Equal(l.stale[n-1], clustering) {
		l.stale = l.stale[:n-1]
	}
	l.rows++
	l.bytes += size
	if err := l.t.checkReadLimit(l.rows, l.bytes); err != nil {
		return command.Stop, err
	}
	return l.LookupVisitor.Row(clustering, r)
}
