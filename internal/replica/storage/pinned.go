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

// Pinned reads one logical partition again and again while its caller keeps all writers of it away: with one iterator,
// which is made and sought down the levels of the store once, and having looked up its deletions once. It remembers
// the timestamps of what it has read. It belongs to one goroutine, and holds memory of the store until it is closed.
type Pinned struct {
	s     *Reader
	table uint32
	tok   token.Token
	key   []byte
	// rd stands in the partition, nil until something was read. It has read what stands before the rows as of.
	rd *reader
	of sight
	// newest are the highest timestamps of rows that were read, and of what deletes them, newestMax of them at most.
	newest map[string]int64
}

// sight is what decides how a row, or a static row, is seen.
type sight struct {
	now     int64
	dropped []cqltype.Dropped
	statics bool
}

// newestMax is how many rows' timestamps a Pinned remembers.
const newestMax = 1000

// Pin makes a Pinned of a logical partition. The key stays the caller's, and as it is.
func (s *Reader) Pin(table uint32, tok token.Token, key []byte) *Pinned {
	return &Pinned{s: s, table: table, tok: tok, key: key}
}

// Read is Reader.Read of a command that is about the logical partition.
func (p *Pinned) Read(ctx context.Context, r *command.Read, v command.Visitor) error {
	in := p.s.table(p.table).installed.Load()
	switch {
	case r.Index != nil || r.Changes != nil || r.AfterKey != nil:
		return p.s.Read(ctx, r, v) // by another way than the rows in their order
	case in != nil && in.Clustering == 0:
		return p.s.readFor(ctx, r, v, p) // one row, which needs no iterator
	}
	if err := p.s.Err(); err != nil {
		return err
	}
	return p.s.told(p.table, p.read(ctx, r, v))
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
	rd.laws.begin()
	defer rd.rest()
	if of := (sight{r.Now, r.Dropped, rd.statics()}); rd.it == nil || !p.of.is(&of) {
		p.of = of
		err = p.stand()
	} else {
		rd.announced, rd.fresh, rd.walked = false, false, 0
		rd.large, err = rd.s.large.enter(ctx, rd.prefix)
	}
	if err == nil {
		_, err = rd.partition()
	}
	return err
}

// stand has the reader stand in the partition, with a new iterator.
func (p *Pinned) stand() error {
	rd := p.rd
	err := rd.closeIterators()
	rd.version = 0 // find nothing before there is an iterator
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

func (a *sight) is(b *sight) bool {
	return a.now == b.now && a.statics == b.statics && slices.Equal(a.dropped, b.dropped)
}

// rest gives back what only a read under way may have.
func (rd *reader) rest() {
	if rd.visited > 0 {
		rd.s.m.rows.Add(uint64(rd.visited))
		rd.visited = 0
	}
	rd.s.large.leave(rd.large)
	rd.large = 0
}

// note remembers the timestamps of a row that is read.
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

// Newest is Reader.Newest of a mutation of the logical partition. Rows that were read are not looked at again.
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

// Close lets go of the store.
func (p *Pinned) Close() error {
	if p.rd == nil {
		return nil
	}
	err := p.rd.close()
	p.rd = nil
	return p.s.check(err)
}
