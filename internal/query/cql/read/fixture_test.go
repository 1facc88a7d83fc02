// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// fixture is a schema with tables in memory. The fixture supports only the CQL statements that are needed to prepare
// test data.
type fixture struct {
	schema   *schema.Schema
	keyspace string
	tables   map[uint32]*memory
	// clock is the timestamp of the next write. now is the time of reads in Unix seconds.
	clock, now int64
	uuids      *cqltype.TimeUUIDs
	stamp      byte
	mu         sync.Mutex // guards tables
}

// errScene is returned for statements that the fixture does not support.
var errScene = fmt.Errorf("not a statement for setting scenes")

func newFixture() *fixture {
	return &fixture{
		schema: schema.New(), tables: map[uint32]*memory{}, clock: 1000, now: 1_700_000_000,
		uuids: cqltype.NewTimeUUIDs([6]byte{1, 2, 3, 4, 5, 6}, 1),
	}
}

type binds struct {
	values [][]byte
	unset  []bool
}

func (w *fixture) change(c schema.Change) error {
	next, _, err := schema.Apply(w.schema, c)
	if err == nil {
		w.schema = next
	}
	return err
}

func (w *fixture) next() schema.UUID {
	w.stamp++
	return schema.UUID{0: w.stamp, 15: 1}
}

// table finds a table by name.
func (w *fixture) table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error) {
	ks := name.Keyspace.Name
	if ks == "" {
		ks = w.keyspace
	}
	if ks == "" {
		return nil, nil, dberr.Invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
	}
	k := w.schema.Keyspace(ks)
	if k == nil {
		return nil, nil, dberr.Invalidf("keyspace %s does not exist", ks)
	}
	if t := k.Tables[name.Name.Name]; t != nil {
		return k, t, nil
	}
	return nil, nil, dberr.Invalidf("table %s does not exist", name.Name.Name)
}

func (w *fixture) memory(t *schema.Table) *memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.tables[t.ID]
	if m == nil {
		m = &memory{}
		w.tables[t.ID] = m
	}
	m.table = t
	return m
}

// set executes a statement that prepares test data.
func (w *fixture) set(stmt parser.Statement, markers int, b binds) error {
	switch s := stmt.(type) {
	case *parser.Use:
		w.keyspace = s.Keyspace.Name
		return nil
	case *parser.CreateKeyspace:
		return w.change(&schema.CreateKeyspace{Name: s.Name.Name, IfNotExists: s.IfNotExists,
			Properties: []schema.Property{{
				Name: "replication", IsMap: true,
				Map: []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}},
			}}})
	case *parser.CreateType:
		return w.createType(s)
	case *parser.CreateTable:
		return w.createTable(s)
	case *parser.CreateIndex:
		return w.createIndex(s)
	case *parser.DropIndex:
		return w.change(&schema.DropIndex{Keyspace: w.qualify(s.Name), Name: s.Name.Name.Name})
	case *parser.Insert:
		return w.insert(s, markers, b)
	case *parser.Update:
		return w.update(s, markers, b)
	case *parser.Delete:
		return w.remove(s, markers, b)
	case *parser.Truncate:
		_, t, err := w.table(s.Table)
		if err == nil {
			w.memory(t).partitions = nil
		}
		return err
	}
	return errScene
}

func (w *fixture) qualify(n parser.QualifiedName) string {
	if n.Keyspace.Name != "" {
		return n.Keyspace.Name
	}
	return w.keyspace
}

func (w *fixture) spec(ks string, t *parser.TypeName) (*schema.TypeSpec, error) {
	typ, err := expr.NewEnv(compat.Cassandra40, w.schema.Keyspace(ks), nil, 0).ResolveType(t)
	if err != nil {
		return nil, err
	}
	return schema.SpecOf(typ), nil
}

func (w *fixture) createType(s *parser.CreateType) error {
	c := &schema.CreateType{Keyspace: w.qualify(s.Name), Name: s.Name.Name.Name, IfNotExists: s.IfNotExists}
	for _, f := range s.Fields {
		t, err := w.spec(c.Keyspace, f.Type)
		if err != nil {
			return err
		}
		c.Fields = append(c.Fields, schema.FieldSpec{Name: f.Name.Name, Type: t})
	}
	return w.change(c)
}

func (w *fixture) createTable(s *parser.CreateTable) error {
	if s.Options.CompactStorage {
		return errScene
	}
	c := &schema.CreateTable{Keyspace: w.qualify(s.Name), Name: s.Name.Name.Name, ID: w.next(),
		IfNotExists: s.IfNotExists}
	for _, col := range s.Columns {
		t, err := w.spec(c.Keyspace, col.Type)
		if err != nil {
			return err
		}
		c.Columns = append(c.Columns, schema.ColumnSpec{Name: col.Name.Name, Type: t, Static: col.Static})
		if col.PrimaryKey {
			c.PartitionKey = []string{col.Name.Name}
		}
	}
	for _, k := range s.PrimaryKeys {
		for _, n := range k.Partition {
			c.PartitionKey = append(c.PartitionKey, n.Name)
		}
		for _, n := range k.Clustering {
			c.Clustering = append(c.Clustering, n.Name)
		}
	}
	for _, p := range s.Options.Properties {
		if p.Name.Name == "default_time_to_live" {
			c.Properties = append(c.Properties, schema.Property{Name: p.Name.Name, Value: p.Value.Text})
		}
	}
	for _, o := range s.Options.ClusteringOrder {
		c.Order = append(c.Order, schema.OrderSpec{Column: o.Column.Name, Desc: o.Descending})
	}
	return w.change(c)
}

func (w *fixture) createIndex(s *parser.CreateIndex) error {
	c := &schema.CreateIndex{Keyspace: w.qualify(s.Table), Table: s.Table.Name.Name, Name: s.Name.Name.Name,
		IfNotExists: s.IfNotExists}
	_, t, err := w.table(s.Table)
	if err != nil {
		return err
	}
	for _, target := range s.Targets {
		kind := [...]schema.IndexTarget{schema.IndexValue, schema.IndexValues, schema.IndexKeys, schema.IndexEntries,
			schema.IndexFull}[target.Kind]
		if col := t.ByName[target.Column.Name]; kind == schema.IndexValue && col != nil && col.Type.IsCollection() {
			kind = schema.IndexValues
		}
		c.Targets = append(c.Targets, schema.TargetSpec{Column: target.Column.Name, Target: kind})
	}
	return w.change(c)
}

// rowBuilder is a write under construction.
type rowBuilder struct {
	w          *fixture
	table      *schema.Table
	env        *expr.Env
	bind       *expr.Bindings
	row        row.Builder
	header     row.Builder
	values     map[string][]byte
	timestamp  int64
	ttl        int32
	expiry     int64
	components [][]byte
	clustering []byte
	// whole reports whether all clustering columns have values.
	whole bool
}

func (w *fixture) scene(name parser.QualifiedName, using parser.Using, markers int, b binds) (*rowBuilder, error) {
	ks, t, err := w.table(name)
	if err != nil {
		return nil, err
	}
	w.clock++
	s := &rowBuilder{
		w: w, table: t, env: expr.NewEnv(compat.Cassandra40, ks, t, markers), values: map[string][]byte{},
		timestamp: w.clock,
		bind:      &expr.Bindings{Values: b.values, Unset: b.unset, Now: time.Unix(w.now, 0), UUIDs: w.uuids},
	}
	if using.Timestamp != nil {
		v, err := s.eval(using.Timestamp, expr.Receiver{Name: "[timestamp]", Type: cqltype.Native(cqltype.Bigint)})
		if err != nil {
			return nil, err
		}
		s.timestamp, _ = strconv.ParseInt(cqltype.Native(cqltype.Bigint).Text(v), 10, 64)
	}
	if d := t.Options.DefaultTTL; d > 0 {
		s.ttl, s.expiry = d, w.now+int64(d)
	}
	if using.TTL != nil {
		v, err := s.eval(using.TTL, expr.Receiver{Name: "[ttl]", Type: cqltype.Native(cqltype.Int)})
		if err != nil {
			return nil, err
		}
		n, _ := strconv.Atoi(cqltype.Native(cqltype.Int).Text(v))
		s.ttl, s.expiry = int32(n), w.now+int64(n)
	}
	s.row.Reset(s.timestamp)
	s.header.Reset(s.timestamp)
	return s, nil
}

// eval evaluates a term. For an unset value, eval returns errScene.
func (s *rowBuilder) eval(t parser.Term, r expr.Receiver) ([]byte, error) {
	bound, err := expr.Bind(t, r, s.env)
	if err != nil {
		return nil, err
	}
	v, state, err := bound.Eval(s.bind)
	if state == expr.Unset && err == nil {
		err = errScene
	}
	return v, err
}

func (s *rowBuilder) key() error {
	for _, c := range s.table.PartitionKey {
		v, ok := s.values[c.Name]
		if !ok || v == nil {
			return errScene
		}
		s.components = append(s.components, v)
	}
	s.whole = true
	for _, c := range s.table.Clustering {
		v, ok := s.values[c.Name]
		if !ok {
			s.whole = false
			break
		}
		if v == nil {
			return errScene
		}
		s.clustering = c.Type.AppendKey(s.clustering, v, c.Desc)
	}
	if len(s.components) == 1 && len(s.components[0]) == 0 {
		return dberr.Invalidf("Key may not be empty")
	}
	return nil
}

// cell writes a whole column.
func (s *rowBuilder) cell(c *schema.Column, v []byte) error {
	b := &s.row
	if c.Kind == schema.Static {
		b = &s.header
	}
	if !c.Type.MultiCell() {
		if v == nil {
			b.Tombstone(c.ID, nil, s.w.now)
		} else {
			b.Cell(c.ID, nil, v, s.ttl, s.expiry)
		}
		return nil
	}
	b.DeleteColumn(c.ID, -1, s.w.now)
	if v == nil {
		return nil
	}
	s.elements(b, c, v)
	return nil
}

// elements adds elements to a multi-cell column.
func (s *rowBuilder) elements(b *row.Builder, c *schema.Column, v []byte) {
	for path, value := range row.Elements(c.Type, v) {
		if c.Type.Kind == cqltype.List {
			id := s.w.uuids.Next(s.w.now * 1e9)
			path = cqltype.Native(cqltype.Timeuuid).AppendKey(nil, id[:], false)
		}
		if value != nil {
			b.Cell(c.ID, path, value, s.ttl, s.expiry)
		}
	}
}

func (s *rowBuilder) apply() error {
	m := s.w.memory(s.table)
	key := token.AppendKey(nil, s.components...)
	if !s.header.Empty() {
		if err := m.apply(key, nil, s.header.Append(nil), true); err != nil {
			return err
		}
	}
	if !s.row.Empty() {
		return m.apply(key, s.clustering, s.row.Append(nil), false)
	}
	return nil
}

func (w *fixture) insert(stmt *parser.Insert, markers int, b binds) error {
	if stmt.JSON != nil || stmt.IfNotExists {
		return errScene
	}
	s, err := w.scene(stmt.Table, stmt.Using, markers, b)
	if err != nil {
		return err
	}
	for i, name := range stmt.Columns {
		c, err := expr.FindColumn(s.table, name)
		if err != nil {
			return err
		}
		bound, err := expr.Bind(stmt.Values[i], expr.ForColumn(c), s.env)
		if err != nil {
			return err
		}
		v, state, err := bound.Eval(s.bind)
		if err != nil {
			return err
		}
		if state == expr.Unset {
			continue
		}
		if s.values[c.Name] = v; !c.Kind.IsKey() {
			if err := s.cell(c, v); err != nil {
				return err
			}
		}
	}
	if err := s.key(); err != nil {
		return err
	}
	if s.whole {
		s.row.Live(s.ttl, s.expiry)
	}
	return s.apply()
}

// where sets the key columns from equality relations.
func (s *rowBuilder) where(relations []parser.Relation) error {
	for i := range relations {
		r := &relations[i]
		if r.Kind != parser.SingleColumn || r.Op != parser.Equal {
			return errScene
		}
		c, err := expr.FindColumn(s.table, r.Columns[0])
		if err != nil {
			return err
		}
		if s.values[c.Name], err = s.eval(r.Value, expr.ForColumn(c)); err != nil {
			return err
		}
	}
	return s.key()
}

func (w *fixture) update(stmt *parser.Update, markers int, b binds) error {
	s, err := w.scene(stmt.Table, stmt.Using, markers, b)
	if err != nil {
		return err
	}
	if stmt.IfExists || len(stmt.Conditions) > 0 || s.table.Counter {
		return errScene
	}
	for _, a := range stmt.Assignments {
		c, err := expr.FindColumn(s.table, a.Column)
		if err != nil {
			return err
		}
		switch {
		case a.Kind == parser.SetColumn:
			v, err := s.eval(a.Value, expr.ForColumn(c))
			if err != nil {
				return err
			}
			if err := s.cell(c, v); err != nil {
				return err
			}
		case a.Kind == parser.AddTo && c.Type.MultiCell() && c.Type.Kind != cqltype.UDT:
			v, err := s.eval(a.Value, expr.ForColumn(c))
			if err != nil {
				return err
			}
			builder := &s.row
			if c.Kind == schema.Static {
				builder = &s.header
			}
			s.elements(builder, c, v)
		case a.Kind == parser.SetElement && c.Type.MultiCell() && c.Type.Kind == cqltype.Map:
			key, err := s.eval(a.Key, expr.ForColumn(c).Key())
			if err != nil {
				return err
			}
			v, err := s.eval(a.Value, expr.ForColumn(c).Element())
			if err != nil {
				return err
			}
			if v == nil || key == nil {
				return errScene
			}
			builder := &s.row
			if c.Kind == schema.Static {
				builder = &s.header
			}
			builder.Cell(c.ID, c.Type.Elems[0].AppendKey(nil, key, false), v, s.ttl, s.expiry)
		default:
			return errScene
		}
	}
	if err := s.where(stmt.Where); err != nil {
		return err
	}
	return s.apply()
}

func (w *fixture) remove(stmt *parser.Delete, markers int, b binds) error {
	s, err := w.scene(stmt.Table, stmt.Using, markers, b)
	if err != nil {
		return err
	}
	if stmt.IfExists || len(stmt.Conditions) > 0 {
		return errScene
	}
	for _, target := range stmt.Targets {
		c, err := expr.FindColumn(s.table, target.Column)
		if err != nil {
			return err
		}
		if target.Key != nil || target.Field.Name != "" {
			return errScene
		}
		if err := s.cell(c, nil); err != nil {
			return err
		}
	}
	if err := s.where(stmt.Where); err != nil {
		return err
	}
	switch {
	case len(stmt.Targets) > 0:
	case s.whole && len(s.table.Clustering) > 0:
		s.row.DeleteRow(w.now)
	case len(s.clustering) > 0:
		s.header.DeleteRange(s.clustering, cqltype.AfterPrefix(bytes.Clone(s.clustering)), w.now)
	default:
		s.header.DeleteRow(w.now)
	}
	return s.apply()
}

// prepare parses and plans a SELECT.
func (w *fixture) prepare(text string) (*Plan, error) {
	stmt, markers, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	sel, ok := stmt.(*parser.Select)
	if !ok {
		return nil, errScene
	}
	ks, t, err := w.table(sel.Table)
	if err != nil {
		return nil, err
	}
	return Prepare(compat.Cassandra40, sel, ks, t, len(markers))
}

// execute executes a plan. The default consistency level is LOCAL_QUORUM.
func (w *fixture) execute(p *Plan, b binds, o Options) (*Page, error) {
	if o.Level == dberr.Any {
		o.Level = dberr.LocalQuorum
	}
	return w.executeBound(p, b, o)
}

func (w *fixture) executeAt(p *Plan, o Options) (*Page, error) { return w.executeBound(p, binds{}, o) }

func (w *fixture) executeBound(p *Plan, b binds, o Options) (*Page, error) {
	bind := &expr.Bindings{Values: b.values, Unset: b.unset, Now: time.Unix(w.now, 0), UUIDs: w.uuids}
	if err := bind.CheckCount(len(p.Variables())); err != nil {
		return nil, err
	}
	if o.Now == 0 {
		o.Now = w.now
	}
	var page Page
	err := p.Execute(context.Background(), w.memory(p.Table()), bind, o, &page)
	return &page, err
}
