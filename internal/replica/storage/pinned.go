// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Pinned reads one logical partition repeatedly while its caller excludes all writers of the partition. It positions
// one iterator for all reads and looks up the deletions only once. Pinned stores the timestamps of the rows that it has
// read. It is not safe for concurrent use. It retains memory of the store until it is closed.
type Pinned struct {
	s     *Reader
	table uint32
	tok   token.Token
	key   []byte
	// rd is positioned in the partition, and has read all data that precedes the rows. It is nil until the first read.
	// of holds the parameters with which rd was positioned.
	rd *reader
	of viewParams
	// newest maps a row that was read to the highest timestamp of the row and the deletions that cover it. It has up to
	// newestMax entries.
	newest map[string]int64
}

// viewParams are the parameters that determine the visible content of a row or a static row.
type viewParams struct {
	now     int64
	dropped []cqltype.Dropped
	statics bool
}

// newestMax is the maximum number of rows whose timestamps a Pinned stores.
const newestMax = 1000

// Pin returns a Pinned for a logical partition. The caller must not modify the key.
func (s *Reader) Pin(table uint32, tok token.Token, key []byte) *Pinned {
	return &Pinned{s: s, table: table, tok: tok, key: key}
}

// Read executes a read of the logical partition like Reader.Read.
func (p *Pinned) Read(ctx context.Context, r *command.Read, v command.Visitor) error {
	in := p.s.lookupTable(p.table).installed.Load()
	switch {
	case r.Index != nil || r.Changes != nil || r.AfterKey != nil:
		return p.s.Read(ctx, r, v) // this command does not read rows in order
	case in != nil && in.Clustering == 0:
		return p.s.readFor(ctx, r, v, p) // a read of a single row needs no iterator
	}
	if err := p.s.Err(); err != nil {
		return err
	}
	return p.s.wrapError(p.table, p.read(ctx, r, v))
}

func (p *Pinned) read(ctx context.Context, r *command.Read, v command.Visitor) (err error) {
	rd := p.rd
	if rd == nil {
		rd = readers.Get().(*reader)
		rd.s, rd.t, rd.pinned, rd.resume = p.s, p.s.table(p.table), p, false
		p.rd = rd
	}
	rd.ctx, rd.r, rd.v = ctx, r, v
	rd.visited, rd.silent, rd.expired = 0, 0, rd.t.expired(r.Now)
	rd.invariants.begin()
	defer rd.finishRead()
	if of := (viewParams{r.Now, r.Dropped, rd.statics()}); rd.it == nil || !p.of.is(&of) {
		p.of = of
		err = p.reposition()
	} else {
		rd.announced, rd.fresh, rd.walked = false, false, 0
		rd.large, err = rd.s.large.enter(ctx, rd.prefix)
	}
	if err == nil {
		_, err = rd.partition()
	}
	return err
}

// reposition creates a new iterator and positions the iterator in the partition.
func (p *Pinned) reposition() error {
	rd := p.rd
	err := rd.closeIterators()
	rd.version = 0 // version 0 disables the lookup of runs until the iterator exists
	if err == nil {
		err = rd.begin(p.tok, p.key)
	}
	if err == nil {
		err = rd.openPartition()
	}
	if err != nil {
		err = errors.Join(err, rd.closeIterators())
	}
	return err
}

func (a *viewParams) is(b *viewParams) bool {
	return a.now == b.now && a.statics == b.statics && slices.Equal(a.dropped, b.dropped)
}

// finishRead releases the resources that are needed only during a read.
func (rd *reader) finishRead() {
	if rd.visited > 0 {
		rd.s.m.rows.Add(uint64(rd.visited))
		rd.visited = 0
	}
	rd.s.large.leave(rd.large)
	rd.large = 0
}

// note stores the highest timestamp of a row that has been read.
func (p *Pinned) note(clustering, value []byte, deleted int64) error {
	if len(p.newest) == newestMax {
		return nil
	}
	at, err := row.Newest(value)
	if err != nil {
		return err
	}
	if p.newest == nil {
		p.newest = map[string]int64{}
	}
	p.newest[string(clustering)] = max(at, deleted)
	return nil
}

// Newest returns the same result as Reader.Newest for a mutation of the logical partition. It does not look up rows
// that have already been read.
func (p *Pinned) Newest(m *command.Mutation) (int64, error) {
	newest := row.NotDeleted
	left := *m
	left.Ops = nil
	for i := range m.Ops {
		op := &m.Ops[i]
		at, known := p.newest[string(op.Clustering)]
		switch {
		case op.Kind == command.OpRow && known:
			newest = max(newest, at)
		case op.Kind == command.OpRow || op.Kind == command.OpHeader:
			left.Ops = append(left.Ops, *op)
		}
	}
	if len(left.Ops) == 0 && newest != row.NotDeleted {
		return newest, nil
	}
	at, err := p.s.Newest(&left)
	return max(newest, at), err
}

// Close releases the resources of the Pinned.
func (p *Pinned) Close() error {
	if p.rd == nil {
		return nil
	}
	err := p.rd.close()
	p.rd = nil
	return p.s.check(err)
}
