// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/relation"
)

// origin is where the rows of a view come from. The cells of a view have the stamps of deliveries (RFC 0030): a
// statement that selects the times of its columns is shown those of the base table's cells, and each row costs a read
// of the row that it was made from. Where that has no such cell any more the view is behind, and shows its own time.
type baseTimes struct {
	view, base *schema.Table
	// columns are those of the base by those of the view.
	columns map[uint32]uint32
	dropped []uint32
}

// bindOrigin notes the base table, if times of a view's columns are selected.
func (p *Plan) bindBaseTimes() {
	times := slices.ContainsFunc(p.sel.slots, func(s slot) bool { return s.part != cellValue })
	if p.table.View == nil || !times {
		return
	}
	base := p.keyspace.Tables[p.table.View.Base]
	if base == nil {
		return
	}
	p.baseTimes = &baseTimes{view: p.table, base: base, columns: map[uint32]uint32{}, dropped: base.DroppedIDs()}
	for _, c := range p.table.Regulars {
		if from := base.ByName[c.Name]; from != nil {
			p.baseTimes.columns[c.ID] = from.ID
		}
	}
}

// read is the command for the row of the base that a row of the view was made from.
func (o *baseTimes) read(of *command.Read, key, clustering []byte) (*command.Read, error) {
	values := map[string][]byte{}
	for i, c := range o.view.PartitionKey {
		v, err := expr.PartitionKeyValue(o.view, key, i)
		if err != nil {
			return nil, err
		}
		values[c.Name] = v
	}
	for i, c := range o.view.Clustering {
		v, err := expr.ClusteringValue(o.view, clustering, i)
		if err != nil {
			return nil, err
		}
		values[c.Name] = v
	}
	out := &command.Read{Table: o.base.ID, Now: of.Now, Dropped: o.dropped, Level: of.Level, Limit: 1,
		Claimant: of.Claimant, NoWait: of.NoWait}
	var parts [][]byte
	for _, c := range o.base.PartitionKey {
		parts = append(parts, values[c.Name])
	}
	var err error
	if out.Key, err = appendPartitionKey(nil, parts); err != nil {
		return nil, err
	}
	out.Token = o.base.Token(out.Key)
	if len(o.base.Clustering) > 0 {
		var at []byte
		for _, c := range o.base.Clustering {
			at = c.Type.AppendKey(at, values[c.Name], c.Desc)
		}
		out.Slices = []command.Slice{{Start: at, End: append(at[:len(at):len(at)], 0)}}
	}
	return out, nil
}

// take gives the cells of a view's row the times of those of the base's row.
func (o *baseTimes) take(to, from *row.Row) {
	for i := range to.Cells {
		c := &to.Cells[i]
		id, ok := o.columns[c.Column]
		if !ok {
			continue
		}
		for _, f := range from.Column(id) {
			if bytes.Equal(f.Path, c.Path) {
				c.Timestamp, c.TTL, c.Expiry = f.Timestamp, f.TTL, f.Expiry
			}
		}
	}
}

// originReader is a Reader of a view whose rows have the times of their origins. Rows are collected first, so that no
// read waits for another one: a command is sent in pieces of so many rows and bytes.
type baseTimesReader struct {
	Reader
	base *baseTimes
}

const (
	pieceRows  = 100
	pieceBytes = 1 << 20
)

// Read implements Reader.
func (o baseTimesReader) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	next, last := *c, piece{}
	for {
		p := piece{tok: last.tok, key: last.key, resumed: last.truncated && !last.partitionDone}
		if err := o.Reader.Read(ctx, &next, &p); err != nil {
			return err
		}
		stop, err := o.pass(ctx, c, &p, v)
		if stop || err != nil || !p.truncated {
			return err
		}
		if last = p; !after(&next, c, &last) {
			return nil
		}
	}
}

// after makes next go on with a command behind a piece; false if nothing can be left.
func after(next, c *command.Read, p *piece) bool {
	next.Continued = true
	if next.Limit > 0 {
		next.Limit = max(1, next.Limit-p.rows)
	}
	if c.Key != nil {
		next.Slices = relation.After(c.Slices, p.clustering, c.Reversed)
		return !p.partitionDone && len(next.Slices) > 0
	}
	next.AfterKey, next.AfterToken, next.AfterClustering, next.AfterPartition = p.key, p.tok, p.clustering, p.partitionDone
	return true
}

// pass hands a piece on to the visitor that is meant.
func (o baseTimesReader) pass(ctx context.Context, c *command.Read, p *piece, v command.Visitor) (stop bool, err error) {
	step := command.More
	for i := range p.events {
		h := &p.events[i]
		p.partitionDone = step == command.NextPartition
		switch {
		case h.row != nil && p.partitionDone:
			continue
		case h.row != nil:
			if err = o.times(ctx, c, h, v); err == nil {
				step, err = v.Row(h.clustering, h.row)
			}
		case h.charge:
			ru.Tell(v, h.units)
			continue
		case h.passed:
			step, err = command.Passed(v, h.tok, h.key, h.looked)
			p.partitionDone = true
		default:
			step, err = v.Partition(h.tok, h.key, nil)
		}
		if err != nil || step == command.Stop || step == command.Enough {
			return true, err
		}
	}
	p.partitionDone = p.partitionDone || step == command.NextPartition
	return false, nil
}

// times reads the origin of a row.
func (o baseTimesReader) times(ctx context.Context, c *command.Read, h *readEvent, v command.Visitor) error {
	r, err := o.base.read(c, h.key, h.clustering)
	if err != nil {
		return dberr.Serverf("key of %s: %v", o.base.view, err)
	}
	found := piece{}
	if err := o.Reader.Read(ctx, r, &found); err != nil {
		return err
	}
	for i := range found.events {
		if f := &found.events[i]; f.row != nil {
			o.base.take(h.row, f.row)
		} else if f.charge {
			ru.Tell(v, f.units)
		}
	}
	return nil
}

// piece is a visitor that keeps what it hears, up to so many rows and bytes.
type piece struct {
	events      []readEvent
	rows, bytes int
	// tok and key are the partition at hand, and clustering is its last row.
	tok             token.Token
	key, clustering []byte
	// cut says that there may be more; over, that there is no more of the partition at hand that is wanted.
	truncated, partitionDone bool
	// resumed says that the partition at hand was begun by an earlier piece.
	resumed bool
}

// heard is a partition, a row of it, a place that was passed, or a charge.
type readEvent struct {
	tok             token.Token
	key, clustering []byte
	row             *row.Row
	passed, charge  bool
	looked          int
	units           ru.Units
}

// Partition implements command.Visitor. A view has no static row.
func (p *piece) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	goesOn := p.resumed && bytes.Equal(key, p.key)
	p.resumed = false
	if !goesOn {
		p.tok, p.key = tok, bytes.Clone(key)
		p.events = append(p.events, readEvent{tok: tok, key: p.key})
	}
	return command.More, nil
}

// Row implements command.Visitor.
func (p *piece) Row(clustering []byte, r *row.Row) (command.Step, error) {
	p.clustering = bytes.Clone(clustering)
	kept := *r
	kept.Cells = slices.Clone(r.Cells)
	for i := range kept.Cells {
		c := &kept.Cells[i]
		c.Path, c.Value = bytes.Clone(c.Path), bytes.Clone(c.Value)
	}
	p.events = append(p.events, readEvent{tok: p.tok, key: p.key, clustering: p.clustering, row: &kept})
	p.rows++
	p.bytes += r.Size() + len(clustering)
	return p.step(p.rows), nil
}

// Passed implements command.Walker.
func (p *piece) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	p.tok, p.key, p.clustering = tok, bytes.Clone(key), nil
	p.events = append(p.events, readEvent{tok: tok, key: p.key, passed: true, looked: looked})
	return p.step(len(p.events)), nil
}

// Charge implements ru.Charged.
func (p *piece) Charge(u ru.Units) { p.events = append(p.events, readEvent{charge: true, units: u}) }

func (p *piece) step(n int) command.Step {
	if p.truncated = n >= pieceRows || p.bytes >= pieceBytes; p.truncated {
		return command.Stop
	}
	return command.More
}
