// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// baseTimes replaces the timestamps of view cells with the timestamps of base table cells. View cells have the
// timestamps of the view updates (RFC 0030). If a statement selects WRITETIME or TTL of a view column, each row costs
// an additional read of the base row. If the base row does not contain the cell, the view is outdated, and the view
// cell's time is returned.
type baseTimes struct {
	view, base *schema.Table
	// columns maps column IDs of the view to column IDs of the base table.
	columns map[uint32]uint32
	dropped []cqltype.Dropped
}

// bindBaseTimes sets baseTimes if the statement selects times of view columns.
func (p *Plan) bindBaseTimes() {
	times := slices.ContainsFunc(p.sel.slots, func(s slot) bool { return s.part != cellValue })
	if p.table.View == nil || !times {
		return
	}
	base := p.keyspace.Tables[p.table.View.Base]
	if base == nil {
		return
	}
	p.baseTimes = &baseTimes{view: p.table, base: base, columns: map[uint32]uint32{}, dropped: base.Hidden()}
	for _, c := range p.table.Regulars {
		if from := base.ByName[c.Name]; from != nil {
			p.baseTimes.columns[c.ID] = from.ID
		}
	}
}

// read returns the command that reads the base row of a view row.
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
		Principal: of.Principal, NoWait: of.NoWait}
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

// take copies the timestamps from the base row to the view row.
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

// baseTimesReader is a Reader of a view that returns the timestamps of the base rows. It buffers rows in pieces of
// limited size. After a piece has been read, it reads the base rows of the piece.
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

// after sets next to a copy of c that resumes after the last event of a piece. If no rows remain, after returns false.
func after(next, c *command.Read, p *piece) bool {
	next.Continued = true
	if next.Limit > 0 {
		next.Limit = max(1, next.Limit-p.rows)
	}
	if c.Key != nil {
		next.Slices = relation.After(c.Slices, p.clustering, c.Reversed)
		return !p.partitionDone && len(next.Slices) > 0
	}
	next.AfterKey, next.AfterToken, next.AfterClustering, next.AfterPartition = p.key, p.tok, p.clustering,
		p.partitionDone
	return true
}

// pass passes a piece to the visitor.
func (o baseTimesReader) pass(ctx context.Context, c *command.Read, p *piece, v command.Visitor) (stop bool,
	err error) {
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

// times reads the base row of a view row and copies the timestamps to the view row.
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

// piece is a visitor that buffers events. The number of rows and the number of bytes are limited.
type piece struct {
	events      []readEvent
	rows, bytes int
	// tok and key identify the current partition. clustering is the clustering key of the last row in the current
	// partition.
	tok             token.Token
	key, clustering []byte
	// truncated reports whether further events may follow the piece. partitionDone reports whether the visitor needs no
	// more rows of the current partition.
	truncated, partitionDone bool
	// resumed reports whether the current partition began in an earlier piece.
	resumed bool
}

// readEvent is a partition, a row, a passed position, or a charge.
type readEvent struct {
	tok             token.Token
	key, clustering []byte
	row             *row.Row
	passed, charge  bool
	looked          int
	units           ru.Units
}

// Partition implements command.Visitor. Views have no static rows.
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

// Passed implements command.ProgressVisitor.
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
