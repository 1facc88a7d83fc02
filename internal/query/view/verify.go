// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Verifier compares views, and indexes, with their tables, and has them repaired, page by page while the table is
// written to. A difference is one that was there each time, and whose row stayed as it was over the last of the Pauses,
// which is longer than a view is behind that can be written to.
type Verifier struct {
	Rows Rows
	Now  func() time.Time
	// Repair has what differs made good, and looked at again.
	Repair bool
	// Pauses are those before a row that differs is looked at again, each time; 6 s together, 4 s the last, if nil.
	Pauses []time.Duration
}

// usualPauses end with one that is longer than a view is behind that can be written to; the others are for what agrees
// soon.
var usualPauses = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond,
	4 * time.Second}

// At is where a page begins, or the next one; the zero value is the beginning.
type At struct {
	// Back says that it is the way back that goes on, from the view to its table.
	Back bool
	// Key, of a logical partition, and Clustering are those of the row read last; there is none if Key is nil.
	Token           token.Token
	Key, Clustering []byte
}

// Page is what came of a page.
type Page struct {
	// Rows are those that were looked at, Differences those that differ, and Repaired those of them that do not any
	// more. Busy are rows that agreed at no time, and were changed in the last pause: nothing is said of them.
	Rows, Busy, Repaired int
	Differences          []Difference
	// Next is where the next page begins, nil after the last one.
	Next *At
}

// Difference is a row of a view, or of an index, that is not what its table says.
type Difference struct {
	// Row is the primary key of the row in the table, as CQL has it; What says what differs, in words.
	Row, What string
	Repaired  bool
}

// suspect is a row of the base that does not seem to be followed.
type suspect struct {
	token           token.Token
	key, clustering []byte
	// extra is the value by which the view has a row that the base does not say, at is where; at is nil for a row that
	// the view should have.
	extra []byte
	at    *Place
	// what says what differed last, and image what the base had then.
	what  string
	image []byte
	busy  bool
}

// judge looks at suspects again until they agree, or the pauses are over; and has those repaired that differ.
func (f *Verifier) judge(ctx context.Context, t *schema.Table, out *Page, suspects []*suspect,
	agrees func(context.Context, *suspect) (bool, error), repair func(*suspect) (command.Mutation, error)) error {
	suspects, err := f.again(ctx, suspects, agrees)
	if err != nil {
		return err
	}
	differ, said := suspects[:0:0], map[*suspect]string{}
	for _, s := range suspects {
		if s.busy {
			out.Busy++
			continue
		}
		differ = append(differ, s)
		said[s] = s.what
	}
	left := map[*suspect]bool{}
	if f.Repair && len(differ) > 0 {
		ms := make([]command.Mutation, 0, len(differ))
		for _, s := range differ {
			m, err := repair(s)
			if err != nil {
				return err
			}
			if len(m.Ops) > 0 {
				ms = append(ms, m)
			}
		}
		if len(ms) > 0 {
			done := make(ended, 1)
			f.Rows.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
			if err := <-done; err != nil { // the coordinator's own deadline bounds it
				return err
			}
		}
		still, err := f.again(ctx, differ, agrees)
		if err != nil {
			return err
		}
		for _, s := range still {
			left[s] = true
		}
	}
	for _, s := range differ {
		d := Difference{Row: rowText(t, s.key, s.clustering), What: said[s], Repaired: f.Repair && !left[s]}
		if d.Repaired {
			out.Repaired++
		}
		out.Differences = append(out.Differences, d)
	}
	return nil
}

// looks is how many rows of a page are compared at a time: each takes a few requests one after the other, and what they
// wait for is the network.
const looks = 32

// compare looks at several rows at a time, and returns those that do not agree, in their order.
func (f *Verifier) compare(ctx context.Context, rows []*suspect, agrees func(context.Context, *suspect) (bool, error)) (
	differ []*suspect, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	good := make([]bool, len(rows))
	var next atomic.Int64
	var first sync.Once
	var wg sync.WaitGroup
	for range min(looks, len(rows)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(rows); i = int(next.Add(1)) - 1 {
				ok, failed := agrees(ctx, rows[i])
				if failed != nil {
					first.Do(func() { err = failed })
					cancel() // stops the others
					return
				}
				good[i] = ok
			}
		})
	}
	wg.Wait()
	for i, s := range rows {
		if !good[i] {
			differ = append(differ, s)
		}
	}
	return differ, err
}

// again looks at suspects again after each pause and returns those that never agreed.
func (f *Verifier) again(ctx context.Context, suspects []*suspect,
	agrees func(context.Context, *suspect) (bool, error)) ([]*suspect, error) {
	pauses := f.Pauses
	if pauses == nil {
		pauses = usualPauses
	}
	for _, pause := range pauses {
		if len(suspects) == 0 {
			break
		}
		if err := (*sched.Scheduler)(nil).Sleep(ctx, pause); err != nil {
			return nil, err
		}
		var err error
		suspects, err = f.compare(ctx, suspects, func(ctx context.Context, s *suspect) (bool, error) {
			before := s.image
			ok, err := agrees(ctx, s)
			s.busy = !bytes.Equal(before, s.image)
			return ok, err
		})
		if err != nil {
			return nil, err
		}
	}
	return suspects, nil
}

// rowText is a primary key as CQL has it.
func rowText(t *schema.Table, key, clustering []byte) string {
	var b strings.Builder
	add := func(c *schema.Column, value []byte) {
		if b.Len() > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(cqltype.QuoteName(c.Name) + " = " + c.Type.Format(value))
	}
	for i, c := range t.PartitionKey {
		value, err := expr.PartitionKeyValue(t, key, i)
		if err != nil {
			return fmt.Sprintf("%x", key)
		}
		add(c, value)
	}
	for _, c := range t.Clustering {
		if len(clustering) == 0 {
			break // the static row
		}
		value, rest, err := c.Type.ReadKey(nil, clustering, c.Desc)
		if err != nil {
			return b.String()
		}
		add(c, value)
		clustering = rest
	}
	return b.String()
}

// foundRow is where a row stands.
type foundRow struct {
	token           token.Token
	key, clustering []byte
}

// rows are those of a page of a table.
func (f *Verifier) rows(ctx context.Context, t *schema.Table, from At, v *rowsOf, now int64) ([]foundRow, *At, error) {
	read := command.Read{Table: t.ID, Range: token.Full, Level: dberr.Quorum, Now: now, Dropped: t.Hidden(),
		Statics: v.statics}
	if from.Key != nil {
		read.AfterToken, read.AfterKey, read.AfterClustering = from.Token, from.Key, from.Clustering
		read.AfterPartition = len(t.Clustering) == 0 || v.statics
	}
	if err := f.Rows.Read(ctx, &read, v); err != nil {
		return nil, nil, err
	}
	if len(v.rows) < v.limit {
		return v.rows, nil, nil
	}
	last := &v.rows[len(v.rows)-1]
	return v.rows, &At{Back: from.Back, Token: last.token, Key: last.key, Clustering: last.clustering}, nil
}

// rowsOf collects where rows stand.
type rowsOf struct {
	limit int
	tok   token.Token
	key   []byte
	rows  []foundRow
	// statics has it collect static rows, which have no clustering key, and leave the others out.
	statics bool
	each    func(clustering []byte, r *row.Row) error
}

// Partition implements command.Visitor.
func (v *rowsOf) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	v.tok, v.key = tok, bytes.Clone(key)
	switch {
	case !v.statics:
		return command.More, nil
	case static == nil:
		return command.NextPartition, nil
	}
	if step, err := v.Row(nil, static); step == command.Stop {
		return step, err
	}
	return command.NextPartition, nil
}

// Row implements command.Visitor.
func (v *rowsOf) Row(clustering []byte, r *row.Row) (command.Step, error) {
	v.rows = append(v.rows, foundRow{v.tok, v.key, bytes.Clone(clustering)})
	if v.each != nil {
		if err := v.each(clustering, r); err != nil {
			return command.Stop, err
		}
	}
	if len(v.rows) == v.limit {
		return command.Stop, nil
	}
	return command.More, nil
}
