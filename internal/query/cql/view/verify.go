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
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Verifier compares views or indexes with their tables page by page, even during concurrent writes. It can also repair
// differences. A difference is reported if every comparison finds the difference and the row does not change during the
// last pause in Pauses. The last pause is longer than the lag of a writable view.
type Verifier struct {
	Rows  Rows
	Clock sched.Clock
	// Repair reports whether the Verifier repairs differences and compares the rows again.
	Repair bool
	// Pauses holds the wait times before each repeated comparison of a row. The default is 6 s in total, with a last
	// pause of 4 s.
	Pauses []time.Duration
}

// usualPauses is the default of Verifier.Pauses. The last pause is longer than the lag of a writable view. The shorter
// pauses reduce the wait for rows that soon match.
var usualPauses = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond,
	4 * time.Second}

// At is the start position of a page. The zero value is the start of the table.
type At struct {
	// Back is true in the second pass, which reads the view.
	Back bool
	// Token, Key, and Clustering identify the last row that was read. If no row has been read, Key is nil.
	Token           token.Token
	Key, Clustering []byte
}

// Page is the result of a page.
type Page struct {
	// Rows counts compared rows. Repaired counts repaired differences. Busy counts rows that never matched and changed
	// during the last pause. The state of busy rows is unknown.
	Rows, Busy, Repaired int
	Differences          []Difference
	// Next is the start position of the next page, or nil after the last page.
	Next *At
}

// Difference is a row of a view or index that does not match its table.
type Difference struct {
	// Row is the primary key of the table row in CQL notation. The field What describes the difference.
	Row      string `json:"row"`
	What     string `json:"what"`
	Repaired bool   `json:"repaired"`
}

// candidate is a base row that does not seem to match the view or index.
type candidate struct {
	token           token.Token
	key, clustering []byte
	// extra is the view key value of an unexpected view row. at is the position of the unexpected view row. If the view
	// lacks a row, at is nil.
	extra []byte
	at    *Place
	// The field what describes the most recent difference. image is the image of the base row at the time of this
	// difference.
	what  string
	image []byte
	busy  bool
}

// recheck compares candidates repeatedly until they match or the pauses have passed. If Repair is true, it then repairs
// the remaining differences.
func (f *Verifier) recheck(ctx context.Context, t *schema.Table, out *Page, candidates []*candidate,
	agrees func(context.Context, *candidate) (bool, error), repair func(*candidate) (command.Mutation, error)) error {
	candidates, err := f.again(ctx, candidates, agrees)
	if err != nil {
		return err
	}
	differ, said := candidates[:0:0], map[*candidate]string{}
	for _, s := range candidates {
		if s.busy {
			out.Busy++
			continue
		}
		differ = append(differ, s)
		said[s] = s.what
	}
	left := map[*candidate]bool{}
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
			done := make(command.OutcomeChannel, 1)
			f.Rows.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
			if err := (<-done).Err; err != nil { // the coordinator has a deadline
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

// comparisonsMax is the number of rows that are compared concurrently. Each comparison waits for several sequential
// network requests.
const comparisonsMax = 32

// compare compares several rows concurrently. It returns the rows that do not match in their original order.
func (f *Verifier) compare(ctx context.Context, rows []*candidate, agrees func(context.Context, *candidate) (bool,
	error)) (
	differ []*candidate, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	good := make([]bool, len(rows))
	var next atomic.Int64
	var first sync.Once
	var wg sync.WaitGroup
	for range min(comparisonsMax, len(rows)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(rows); i = int(next.Add(1)) - 1 {
				ok, failed := agrees(ctx, rows[i])
				if failed != nil {
					first.Do(func() { err = failed })
					cancel() // stops the other comparisons
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

// again compares candidates again after each pause. It returns the rows that never match.
func (f *Verifier) again(ctx context.Context, candidates []*candidate,
	agrees func(context.Context, *candidate) (bool, error)) ([]*candidate, error) {
	pauses := f.Pauses
	if pauses == nil {
		pauses = usualPauses
	}
	for _, pause := range pauses {
		if len(candidates) == 0 {
			break
		}
		if err := (*sched.Scheduler)(nil).Sleep(ctx, pause); err != nil {
			return nil, err
		}
		var err error
		candidates, err = f.compare(ctx, candidates, func(ctx context.Context, s *candidate) (bool, error) {
			before := s.image
			ok, err := agrees(ctx, s)
			s.busy = !bytes.Equal(before, s.image)
			return ok, err
		})
		if err != nil {
			return nil, err
		}
	}
	return candidates, nil
}

// rowText returns a primary key in CQL notation.
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
			break // a static row has no clustering key
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

// foundRow is the position of a row.
type foundRow struct {
	token           token.Token
	key, clustering []byte
}

// rows returns the rows of a page of a table.
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

// rowsOf collects positions of rows.
type rowsOf struct {
	limit int
	tok   token.Token
	key   []byte
	rows  []foundRow
	// If statics is true, rowsOf collects only static rows. Static rows have no clustering key.
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
