// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
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
// written to. A difference is one that stays, while its row stays as it is, for longer than a view is behind.
type Verifier struct {
	Rows Rows
	Now  func() time.Time
	// Repair has what differs made good, and looked at again.
	Repair bool
	// Pauses are those before a row that differs is looked at again, each time; 6 s together if nil.
	Pauses []time.Duration
}

// usualPauses are longer together than a view is behind that can be written to.
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
	// more. Busy are rows that were changed each time they were looked at: nothing is said of them.
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

// viewPage is View's page of one side.
type viewPage struct {
	*Verifier
	v   *View
	now int64
}

// View compares a page of about limit rows of a view with its table: on the way out those of the table, then those of
// the view.
func (f *Verifier) View(ctx context.Context, ks *schema.Keyspace, name string, from At, limit int) (*Page, error) {
	t := ks.Tables[name]
	if t == nil || t.View == nil || ks.Tables[t.View.Base] == nil {
		return nil, dberr.Invalidf("There is no materialized view %s.%s", ks.Name, name)
	}
	base := ks.Tables[t.View.Base]
	v, err := bind(ks, base, t, base.Hints(name).ID)
	if err != nil {
		return nil, err
	}
	p := &viewPage{Verifier: f, v: v, now: f.Now().Unix()}
	table := base
	if from.Back {
		table = t
	}
	rows, next, err := f.rows(ctx, table, from, &rowsOf{limit: limit}, p.now)
	if err != nil {
		return nil, err
	}
	out := &Page{Rows: len(rows), Next: next}
	if next == nil && !from.Back {
		out.Next = &At{Back: true}
	}
	var suspects []*suspect
	for i := range rows {
		s := &suspect{token: rows[i].token, key: rows[i].key, clustering: rows[i].clustering}
		if from.Back {
			if s, err = p.origin(&rows[i]); err != nil {
				return nil, err
			}
		}
		if ok, err := p.agrees(ctx, s); err != nil {
			return nil, err
		} else if !ok {
			suspects = append(suspects, s)
		}
	}
	return out, f.judge(ctx, base, out, suspects, p.agrees, func(s *suspect) command.Mutation {
		value := s.extra
		if s.at == nil && v.key != nil {
			value = nil // the delivery enters the place where there is none
		}
		return command.Mutation{Table: base.ID, Token: s.token, Key: s.key, SchemaVersion: base.Revision,
			Ops: v.Row(nil, s.clustering, value, true)}
	})
}

// judge looks at suspects again until they agree, have changed in between each time, or differ; and has them repaired.
func (f *Verifier) judge(ctx context.Context, t *schema.Table, out *Page, suspects []*suspect,
	agrees func(context.Context, *suspect) (bool, error), repair func(*suspect) command.Mutation) error {
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
		ms := make([]command.Mutation, len(differ))
		for i, s := range differ {
			ms[i] = repair(s)
		}
		done := make(ended, 1)
		f.Rows.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
		if err := <-done; err != nil { // the coordinator's own deadline bounds it
			return err
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
		still := suspects[:0:0]
		for _, s := range suspects {
			before := s.image
			ok, err := agrees(ctx, s)
			if err != nil {
				return nil, err
			}
			if s.busy = !bytes.Equal(before, s.image); !ok {
				still = append(still, s)
			}
		}
		suspects = still
	}
	return suspects, nil
}

// stamp is the one by which images are compared.
const compareStamp = 1

// agrees reports whether the view has of a row of the base what it should; else s says what differs.
func (p *viewPage) agrees(ctx context.Context, s *suspect) (bool, error) {
	values, err := p.v.valuesOf(s.key, s.clustering)
	if err != nil {
		return false, err
	}
	var image Image
	if err := p.row(ctx, p.v.Base, s.token, s.key, s.clustering, func(r *row.Row) {
		var b row.Builder
		image = p.v.image(&b, &values, r, compareStamp, p.now)
	}); err != nil {
		return false, err
	}
	s.image = image.Operand
	at := image.Place
	if s.at != nil {
		if image.Shown && bytes.Equal(at.Key, s.at.Key) && bytes.Equal(at.Clustering, s.at.Clustering) {
			return true, nil // what it has there was compared on the way out
		}
		image.Shown, at = false, *s.at
	} else if !image.Shown {
		return true, nil
	}
	var want row.Row
	if image.Shown {
		exists, err := want.Resolve(image.Operand, row.NotDeleted, p.now, nil)
		if err != nil {
			return false, err
		}
		image.Shown = exists
	}
	s.what = ""
	if image.Shown {
		s.what = "the view has no such row"
	}
	err = p.row(ctx, p.v.Table, at.Token, at.Key, at.Clustering, func(r *row.Row) {
		if !image.Shown {
			s.what = "the view has a row that it should not have"
			return
		}
		s.what = unlike(p.v.Table, &want, r)
	})
	return s.what == "", err
}

// unlike says what differs between the row that a view should have and the one that it has, "" for nothing.
func unlike(t *schema.Table, want, have *row.Row) string {
	for _, c := range t.Regulars {
		a, b := want.Column(c.ID), have.Column(c.ID)
		if len(a) != len(b) {
			return fmt.Sprintf("column %s has another value in the view", c.Name)
		}
		for i := range a {
			switch {
			case !bytes.Equal(a[i].Path, b[i].Path) || !bytes.Equal(a[i].Value, b[i].Value):
				return fmt.Sprintf("column %s has another value in the view", c.Name)
			case expiryOf(a[i].TTL, a[i].Expiry) != expiryOf(b[i].TTL, b[i].Expiry):
				return fmt.Sprintf("column %s ends at another time in the view", c.Name)
			}
		}
	}
	return ""
}

// origin is the row of the base that a row of the view is of.
func (p *viewPage) origin(at *foundRow) (*suspect, error) {
	v := p.v
	of := map[*schema.Column][]byte{}
	for i, s := range v.partition {
		value, err := expr.PartitionKeyValue(v.Table, at.key, i)
		if err != nil {
			return nil, err
		}
		of[s.from] = value
	}
	rest := at.clustering
	for _, s := range v.clustering {
		value, more, err := s.to.Type.ReadKey(nil, rest, s.to.Desc)
		if err != nil {
			return nil, err
		}
		of[s.from], rest = value, more
	}
	out := &suspect{extra: of[v.key], at: &Place{Key: at.key, Clustering: at.clustering, Token: at.token}}
	if v.key == nil {
		out.extra = nil
	}
	for _, c := range v.Base.PartitionKey {
		if len(v.Base.PartitionKey) == 1 {
			out.key = bytes.Clone(of[c])
		} else {
			out.key = token.AppendComponent(out.key, of[c])
		}
	}
	for _, c := range v.Base.Clustering {
		out.clustering = c.Type.AppendKey(out.clustering, of[c], c.Desc)
	}
	out.token = v.Base.Token(out.key)
	return out, nil
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
	read := command.Read{Table: t.ID, Range: token.Full, Level: dberr.Quorum, Now: now, Dropped: t.DroppedIDs(),
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

// row passes on one row of a table, if it is there.
func (p *viewPage) row(ctx context.Context, t *schema.Table, tok token.Token, key, clustering []byte,
	fn func(r *row.Row)) error {
	read := command.Read{Table: t.ID, Token: tok, Key: key, Level: dberr.Quorum, Now: p.now, Dropped: t.DroppedIDs()}
	if len(t.Clustering) > 0 {
		read.Slices = []command.Slice{{Start: clustering, End: append(bytes.Clone(clustering), 0)}}
	}
	return p.Rows.Read(ctx, &read, &rowsOf{limit: math.MaxInt, each: func(_ []byte, r *row.Row) error {
		fn(r)
		return nil
	}})
}
