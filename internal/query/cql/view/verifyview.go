// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// viewPage is a page of View in one direction.
type viewPage struct {
	*Verifier
	v *View
	// now is the time in seconds for all comparisons of a page. The TTLs in an image are relative to now, so images
	// with different times would differ even if the row has not changed.
	now int64
}

// View compares a page of a view with the base table. The page contains about limit rows. The first pass reads the
// table, and the second pass reads the view.
func (f *Verifier) View(ctx context.Context, ks *schema.Keyspace, name string, from At, limit int) (*Page, error) {
	t := ks.Tables[name]
	if t == nil || t.View == nil || ks.Tables[t.View.Base] == nil {
		return nil, dberr.Invalidf("Materialized view %s.%s does not exist", ks.Name, name)
	}
	base := ks.Tables[t.View.Base]
	v, err := bind(ks, base, t, base.Hints(name).ID)
	if err != nil {
		return nil, err
	}
	p := &viewPage{Verifier: f, v: v, now: f.Clock.Wall().Unix()}
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
	all := make([]*candidate, len(rows))
	for i := range rows {
		all[i] = &candidate{token: rows[i].token, key: rows[i].key, clustering: rows[i].clustering}
		if from.Back {
			if all[i], err = p.origin(&rows[i]); err != nil {
				return nil, err
			}
		}
	}
	candidates, err := f.compare(ctx, all, p.agrees)
	if err != nil {
		return nil, err
	}
	return out, f.recheck(ctx, base, out, candidates, p.agrees, func(s *candidate) (command.Mutation, error) {
		value := s.extra
		if s.at == nil && v.key != nil {
			value = nil // the delivery adds a missing place
		}
		return command.Mutation{Table: base.ID, Token: s.token, Key: s.key, SchemaVersion: base.Revision,
			Ops: v.Row(nil, s.clustering, value, true)}, nil
	})
}

// compareStamp is the stamp of compared images.
const compareStamp = 1

// agrees reports whether the view data of a base row is correct. If the view data is not correct, agrees sets s.what to
// a description.
func (p *viewPage) agrees(ctx context.Context, s *candidate) (bool, error) {
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
			return true, nil // the first pass has compared the expected row
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
		s.what = "the row is missing from the view"
	}
	err = p.row(ctx, p.v.Table, at.Token, at.Key, at.Clustering, func(r *row.Row) {
		if !image.Shown {
			s.what = "the view contains an unexpected row"
			return
		}
		s.what = unlike(p.v.Table, &want, r)
	})
	return s.what == "", err
}

// unlike describes the difference between the expected and the actual view row. If the rows are equal, it returns an
// empty string.
func unlike(t *schema.Table, want, have *row.Row) string {
	for _, c := range t.Regulars {
		a, b := want.Column(c.ID), have.Column(c.ID)
		if len(a) != len(b) {
			return fmt.Sprintf("column %s has a different value in the view", c.Name)
		}
		for i := range a {
			switch {
			case !bytes.Equal(a[i].Path, b[i].Path) || !bytes.Equal(a[i].Value, b[i].Value):
				return fmt.Sprintf("column %s has a different value in the view", c.Name)
			case expiryOf(a[i].TTL, a[i].Expiry) != expiryOf(b[i].TTL, b[i].Expiry):
				return fmt.Sprintf("column %s has a different expiration time in the view", c.Name)
			}
		}
	}
	return ""
}

// origin returns the base row of a view row.
func (p *viewPage) origin(at *foundRow) (*candidate, error) {
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
	out := &candidate{extra: of[v.key], at: &Place{Key: at.key, Clustering: at.clustering, Token: at.token}}
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

// row calls fn with a row of a table if the row exists.
func (p *viewPage) row(ctx context.Context, t *schema.Table, tok token.Token, key, clustering []byte,
	fn func(r *row.Row)) error {
	read := command.Read{Table: t.ID, Token: tok, Key: key, Level: dberr.Quorum, Now: p.now, Dropped: t.Hidden()}
	if len(t.Clustering) > 0 {
		read.Slices = []command.Slice{{Start: clustering, End: append(bytes.Clone(clustering), 0)}}
	}
	return p.Rows.Read(ctx, &read, &rowsOf{limit: math.MaxInt, each: func(_ []byte, r *row.Row) error {
		fn(r)
		return nil
	}})
}
