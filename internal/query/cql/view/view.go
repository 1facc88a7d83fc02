// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// View is a materialized view in one schema revision.
type View struct {
	Base, Table *schema.Table
	// Index is the ID of the view's hint index.
	Index uint32
	// key is the view key column that is not a base key column, or nil.
	key *schema.Column
	// partition and clustering are the sources of the view's key columns.
	partition, clustering []source
	where                 []condition
	// present holds the base columns that must not be null.
	present []*schema.Column
	columns []mapping
}

// source is the source of a view key column. The source is a base key column or View.key.
type source struct {
	from, to *schema.Column
}

// mapping maps a base column to the view column with the same name.
type mapping struct {
	from *schema.Column
	to   uint32
}

// Of returns the views of a table sorted by name, or nil for a table without views.
func Of(ks *schema.Keyspace, base *schema.Table) ([]*View, error) {
	var out []*View
	for _, ix := range base.SortedIndexes() {
		if ix.Kind != schema.ViewKind {
			continue
		}
		t := ks.Tables[ix.View()]
		if t == nil || t.View == nil {
			return nil, fmt.Errorf("view %s of table %s is missing", ix.View(), base)
		}
		v, err := bind(ks, base, t, ix.ID)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", t, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// bind returns the view of a table descriptor.
func bind(ks *schema.Keyspace, base, t *schema.Table, index uint32) (*View, error) {
	v := &View{Base: base, Table: t, Index: index, key: base.ViewKey(t)}
	for c := range t.Columns() {
		from := base.ByName[c.Name]
		if from == nil {
			return nil, fmt.Errorf("column %s is not in %s", c.Name, base)
		}
		switch c.Kind {
		case schema.PartitionKey:
			v.partition = append(v.partition, source{from, c})
		case schema.Clustering:
			v.clustering = append(v.clustering, source{from, c})
		default:
			v.columns = append(v.columns, mapping{from, c.ID})
		}
	}
	// The order of stored cells is the ID order.
	slices.SortFunc(v.columns, func(a, b mapping) int { return int(a.from.ID) - int(b.from.ID) })
	if v.key != nil {
		v.present = append(v.present, v.key)
	}
	for _, r := range t.View.Where {
		if c := base.ByName[r.Columns[0]]; r.NotNull && c != nil && c != v.key && !c.Kind.IsKey() {
			v.present = append(v.present, c)
		}
	}
	var err error
	v.where, err = conditionsOf(ks, base, t.View)
	return v, err
}

// affected reports whether a change of regular columns can affect the view. The change may create the row.
func (v *View) affected(changes func(c *schema.Column) bool) bool {
	if v.key == nil {
		return true // any column can keep a row alive
	}
	for _, m := range v.columns {
		if changes(m.from) {
			return true
		}
	}
	return slices.ContainsFunc(v.present, changes)
}

// values holds the key column values of a base row.
type values struct{ partition, clustering [][]byte }

func (v *View) valuesOf(key, clustering []byte) (out values, err error) {
	for i := range v.Base.PartitionKey {
		c, err := expr.PartitionKeyValue(v.Base, key, i)
		if err != nil {
			return out, err
		}
		out.partition = append(out.partition, c)
	}
	for _, c := range v.Base.Clustering {
		if len(clustering) == 0 {
			return out, fmt.Errorf("clustering key of %s is too short", v.Base)
		}
		value, rest, err := c.Type.ReadKey(nil, clustering, c.Desc)
		if err != nil {
			return out, err
		}
		out.clustering, clustering = append(out.clustering, value), rest
	}
	return out, nil
}

// of returns the value of a base key column.
func (w *values) of(c *schema.Column) []byte {
	if c.Kind == schema.PartitionKey {
		return w.partition[c.Position]
	}
	return w.clustering[c.Position]
}

// Place is the primary key of a view row.
type Place struct {
	Key, Clustering []byte
	Token           token.Token
}

// place returns the place of a base row in the view if v.key has a value. If the partition key would be too long, ok is
// false. The partition key may be empty, although clients cannot specify an empty key. As in Cassandra, scans return
// such rows.
func (v *View) place(w *values, value []byte) (p Place, ok bool) {
	at := func(s source) []byte {
		if s.from == v.key {
			return value
		}
		return w.of(s.from)
	}
	if len(v.partition) == 1 {
		p.Key = append([]byte{}, at(v.partition[0])...)
	} else {
		for _, s := range v.partition {
			p.Key = token.AppendComponent(p.Key, at(s))
		}
	}
	for _, s := range v.clustering {
		p.Clustering = s.to.Type.AppendKey(p.Clustering, at(s), s.to.Desc)
	}
	p.Token = v.Table.Token(p.Key)
	return p, len(p.Key) <= keys.MaxLen
}

// Image is the view data of a base row. If the row has no place, Image is empty.
type Image struct {
	Place
	Shown bool
	// Value is the value of the view key column that is not a base key column, or nil. Value may be set even if the
	// view does not contain the row.
	Value []byte
	// Operand is the whole row with a timestamp. It replaces all earlier view data at the place.
	Operand []byte
}

// image computes the view data of a base row at a stamp. If the row does not exist, r is nil. Expired cells of r are
// also expired in the image. now is the time in seconds at which r was read. It is used only to compute remaining TTLs.
func (v *View) image(b *row.Builder, w *values, r *row.Row, stamp, now int64) Image {
	var out Image
	if r == nil || !r.Exists() {
		return out
	}
	if v.key != nil {
		if cell := r.Cell(v.key.ID); cell != nil {
			out.Value = append([]byte{}, cell.Value...)
		}
	}
	if !v.holds(w) {
		return out
	}
	ends := v.ends(r)
	for _, c := range v.present {
		cells := r.Column(c.ID)
		if len(cells) == 0 {
			return out
		}
		last := int64(0)
		for i := range cells {
			last = max(last, expiryOf(cells[i].TTL, cells[i].Expiry))
		}
		ends = min(ends, last)
	}
	if out.Place, out.Shown = v.place(w, out.Value); !out.Shown {
		return out
	}
	b.Reset(stamp)
	if ends == row.NoExpiry {
		b.Live(0, 0)
	} else {
		b.Live(int32(max(1, min(ends-now, maxTTL))), ends)
	}
	for _, m := range v.columns {
		cells := r.Column(m.from.ID)
		if !row.OneCell(m.from.Type) {
			delta := -1
			if len(cells) == 0 {
				delta = 0
			}
			b.DeleteColumn(m.to, delta, now)
		} else if len(cells) == 0 {
			b.Tombstone(m.to, nil, now)
		}
		for i := range cells {
			ttl, expiry := cells[i].TTL, min(expiryOf(cells[i].TTL, cells[i].Expiry), ends)
			if expiry != row.NoExpiry && ttl == 0 {
				ttl = int32(max(1, min(expiry-now, maxTTL)))
			}
			b.Cell(m.to, cells[i].Path, cells[i].Value, ttl, expiry)
		}
	}
	out.Operand = b.Append(nil)
	return out
}

// maxTTL is the maximum TTL. The value is 20 years in seconds.
const maxTTL = 20 * 365 * 24 * 60 * 60

func expiryOf(ttl int32, expiry int64) int64 {
	if ttl == 0 {
		return row.NoExpiry
	}
	return expiry
}

// ends returns the time in seconds at which a row expires. A row expires when the last cell or marker that keeps the
// row alive expires.
func (v *View) ends(r *row.Row) int64 {
	last := int64(0)
	if r.Live {
		last = expiryOf(r.Liveness.TTL, r.Liveness.Expiry)
	}
	for i := range r.Cells {
		last = max(last, expiryOf(r.Cells[i].TTL, r.Cells[i].Expiry))
	}
	return last
}

// gone returns the operand that deletes the view data at a place.
func gone(b *row.Builder, stamp, now int64) []byte {
	b.Reset(stamp)
	b.DeleteRow(now)
	return b.Append(nil)
}

// knows reports whether all cells of a row belong to current or dropped base columns. If knows returns false, the row
// was written with a newer schema.
func (v *View) knows(r *row.Row) bool {
	for i := range r.Cells {
		if c := r.Cells[i].Column; i == 0 || r.Cells[i-1].Column != c {
			if c >= v.Base.NextColumn {
				return false
			}
		}
	}
	return true
}
