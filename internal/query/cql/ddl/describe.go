// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// DescribeKeyspace and DescribeTable are the keyspace and table names in the column metadata of DESCRIBE.
const (
	DescribeKeyspace = "system"
	DescribeTable    = "describe"
)

// Column is a result column of DESCRIBE.
type Column struct {
	Name string
	Type *cqltype.Type
}

// Rows is the result of DESCRIBE. It holds the wire values of every row. The caller divides the rows into pages.
type Rows struct {
	Columns []Column
	Rows    [][][]byte
}

var (
	textType       = cqltype.Native(cqltype.Text)
	textList       = cqltype.ListOf(textType)
	ownershipType  = cqltype.MapOf(textType, textList)
	listColumns    = []Column{{"keyspace_name", textType}, {"type", textType}, {"name", textType}}
	elementColumns = append(slices.Clip(listColumns), Column{"create_statement", textType})
	clusterColumns = []Column{{"cluster", textType}, {"partitioner", textType}, {"snitch", textType}}
)

func (r *Rows) add(texts ...string) {
	row := make([][]byte, len(texts))
	for i, t := range texts {
		row[i] = append([]byte{}, t...)
	}
	r.Rows = append(r.Rows, row)
}

// describer collects the rows of one DESCRIBE.
type describer struct {
	Rows
	release   *compat.Release
	schema    *schema.Schema
	session   string
	internals bool
}

// Describe executes DESCRIBE. keyspace is the session's keyspace, or empty. The order of the rows is the same as in
// Cassandra. Keyspaces are sorted by name. Each keyspace contains types in dependency order, functions, aggregates, and
// tables with their indexes. The sort order of names ignores case.
func (e *Executor) Describe(stmt *parser.Describe, keyspace string) (*Rows, error) {
	d := &describer{release: e.opts.Release, schema: e.catalog.Snapshot(), session: keyspace,
		internals: stmt.Internals}
	var err error
	switch stmt.Kind {
	case parser.DescribeCluster:
		info := e.catalog.Info()
		d.cluster(&info)
	case parser.DescribeKeyspaces, parser.DescribeTables, parser.DescribeTypes, parser.DescribeFunctions,
		parser.DescribeAggregates:
		err = d.list(stmt.Kind)
	case parser.DescribeSchema:
		d.Columns = elementColumns
		for ks := range d.schema.All() {
			if stmt.Full || !schema.IsSystem(ks.Name) {
				d.keyspace(ks, false)
			}
		}
	default:
		d.Columns = elementColumns
		err = d.element(stmt)
	}
	if err != nil {
		return nil, err
	}
	return &d.Rows, nil
}

// cluster describes the cluster. If the session has a keyspace, the description includes the owner of each token range.
func (d *describer) cluster(info *catalog.NodeInfo) {
	d.Columns = clusterColumns
	d.add(info.ClusterName, strings.TrimPrefix(catalog.Partitioner, "org.apache.cassandra.dht."),
		strings.TrimPrefix(catalog.Snitch, "org.apache.cassandra.locator."))
	if d.session == "" || schema.IsVirtualSystem(d.session) {
		return
	}
	d.Columns = append(slices.Clip(d.Columns), Column{"range_ownership", ownershipType})
	owners := map[string][]byte{}
	own := func(e *catalog.Endpoint) {
		address := e.Listen
		if !address.IsValid() {
			address = e.RPC
		}
		for _, t := range e.Tokens {
			owners[t.String()] = textList.AppendCollection(nil, []byte(address.String()))
		}
	}
	own(&info.Endpoint)
	for i := range info.Peers {
		own(&info.Peers[i])
	}
	var pairs [][]byte
	for token, list := range owners {
		pairs = append(pairs, []byte(token), list)
	}
	d.Rows.Rows[0] = append(d.Rows.Rows[0], ownershipType.SortedMap(pairs))
}

// listed returns the keyspaces that DESCRIBE lists. The list does not include keyspace ilion. Cassandra does not have
// this keyspace, and some tools accept only known keyspaces.
func (d *describer) listed() []*schema.Keyspace {
	all := slices.Collect(d.schema.All())
	return slices.DeleteFunc(all, func(ks *schema.Keyspace) bool { return ks.Name == schema.OwnKeyspace })
}

// list executes DESCRIBE KEYSPACES, TABLES, TYPES, FUNCTIONS, and AGGREGATES, for the session's keyspace or all
// keyspaces.
func (d *describer) list(kind parser.DescribeKind) error {
	d.Columns = listColumns
	if kind == parser.DescribeKeyspaces {
		for _, ks := range d.listed() {
			d.add(quote(ks.Name), "keyspace", quote(ks.Name))
		}
		return nil
	}
	keyspaces := d.listed()
	if d.session != "" {
		ks, err := d.find(d.session)
		if err != nil {
			return err
		}
		keyspaces = []*schema.Keyspace{ks}
	}
	for _, ks := range keyspaces {
		switch kind {
		case parser.DescribeTables:
			for _, t := range byName(ks.SortedTables(), func(t *schema.Table) string { return t.Name }) {
				if t.View == nil && !catalog.OfScylla(t) {
					d.add(quote(ks.Name), "table", quote(t.Name))
				}
			}
		case parser.DescribeTypes:
			for _, t := range byName(ks.SortedTypes(), func(t *cqltype.Type) string { return t.Name }) {
				d.add(quote(ks.Name), "type", quote(t.Name))
			}
		case parser.DescribeFunctions, parser.DescribeAggregates:
			all := slices.Collect(ks.Scalars(kind == parser.DescribeAggregates))
			for _, f := range byName(all, functionOrder) {
				d.add(quote(ks.Name), functionKind(f), functionName(f))
			}
		}
	}
	return nil
}

// byName sorts a list by name, ignoring case.
func byName[T any](list []T, name func(T) string) []T {
	slices.SortStableFunc(list, func(a, b T) int {
		return strings.Compare(strings.ToLower(name(a)), strings.ToLower(name(b)))
	})
	return list
}

func (d *describer) find(keyspace string) (*schema.Keyspace, error) {
	ks := d.schema.Keyspace(keyspace)
	if ks == nil {
		return nil, dberr.Missingf("'%s' not found in keyspaces", keyspace)
	}
	return ks, nil
}

// element executes a DESCRIBE of one object.
func (d *describer) element(stmt *parser.Describe) error {
	name := stmt.Name.Name.Name
	if stmt.Kind == parser.DescribeKeyspace {
		if name == "" {
			name = d.session
		}
		if name == "" {
			return errNoCurrentKeyspace()
		}
		ks, err := d.find(name)
		if err == nil {
			d.keyspace(ks, stmt.Only)
		}
		return err
	}
	in := d.session
	if stmt.Name.HasKeyspace() {
		in = stmt.Name.Keyspace.Name
	}
	if stmt.Kind == parser.DescribeGeneric {
		return d.generic(stmt.Name.HasKeyspace(), in, name)
	}
	if in == "" {
		return errNoCurrentKeyspace()
	}
	ks, err := d.find(in)
	if err != nil {
		return err
	}
	switch stmt.Kind {
	case parser.DescribeTable:
		if t := ks.Tables[name]; t != nil && t.View == nil {
			d.table(t)
			return nil
		}
		return dberr.Missingf("Table '%s' not found in keyspace '%s'", name, in)
	case parser.DescribeIndex:
		if t, ix := ks.Index(name); ix != nil {
			d.index(t, ix)
			return nil
		}
		return dberr.Invalidf("Table for existing index '%s' not found in '%s'", name, in)
	case parser.DescribeType:
		if t := ks.Types[name]; t != nil {
			d.userType(ks, t)
			return nil
		}
		return dberr.Invalidf("User defined type '%s' not found in '%s'", name, in)
	case parser.DescribeView:
		if t := ks.Tables[name]; t != nil && t.View != nil {
			d.view(t)
			return nil
		}
		return dberr.Invalidf("Materialized view '%s' not found in '%s'", name, in)
	}
	return d.functions(ks, name, stmt.Kind == parser.DescribeAggregate)
}

func errNoCurrentKeyspace() error {
	return dberr.Invalidf("No keyspace specified and no current keyspace")
}

// generic executes DESCRIBE name. The name refers to a keyspace, or to a table or an index of the keyspace.
func (d *describer) generic(qualified bool, in, name string) error {
	if !qualified {
		if ks := d.schema.Keyspace(name); ks != nil {
			d.keyspace(ks, false)
			return nil
		}
		if in == "" {
			return dberr.Missingf("'%s' not found in keyspaces", name)
		}
	}
	ks, err := d.find(in)
	if err != nil {
		return err
	}
	if t := ks.Tables[name]; t != nil {
		if t.View != nil {
			d.view(t)
		} else {
			d.table(t)
		}
		return nil
	}
	if t, ix := ks.Index(name); ix != nil {
		d.index(t, ix)
		return nil
	}
	return dberr.Missingf("'%s' not found in keyspace '%s'", name, in)
}

func (d *describer) keyspace(ks *schema.Keyspace, only bool) {
	d.add(quote(ks.Name), "keyspace", quote(ks.Name), createKeyspace(ks))
	if only {
		return
	}
	done := map[string]bool{}
	for _, t := range byName(ks.SortedTypes(), func(t *cqltype.Type) string { return t.Name }) {
		d.typeAfterItsParts(ks, t, done)
	}
	for _, aggregates := range []bool{false, true} {
		for _, f := range byName(slices.Collect(ks.Scalars(aggregates)), functionOrder) {
			d.function(f)
		}
	}
	for _, t := range byName(ks.SortedTables(), func(t *schema.Table) string { return t.Name }) {
		if t.View == nil {
			d.table(t)
		}
	}
}

// typeAfterItsParts describes a type after the types that the type contains. Therefore, a client can execute the
// statements in order.
func (d *describer) typeAfterItsParts(ks *schema.Keyspace, t *cqltype.Type, done map[string]bool) {
	if done[t.Name] {
		return
	}
	done[t.Name] = true
	for _, name := range slices.Sorted(maps.Keys(ks.Types)) {
		if name != t.Name && t.References(ks.Name, name) {
			d.typeAfterItsParts(ks, ks.Types[name], done)
		}
	}
	d.userType(ks, t)
}

func (d *describer) userType(ks *schema.Keyspace, t *cqltype.Type) {
	d.add(quote(ks.Name), "type", quote(t.Name), createType(t))
}

func (d *describer) table(t *schema.Table) {
	d.add(quote(t.Keyspace), "table", quote(t.Name),
		createTable(d.schema.Keyspace(t.Keyspace), t, d.internals, d.release))
	if t.Container != nil {
		return // the indexes of a container are internal
	}
	for _, ix := range byName(t.ShownIndexes(), func(ix *schema.Index) string { return ix.Name }) {
		d.index(t, ix)
	}
	if ks := d.schema.Keyspace(t.Keyspace); ks != nil {
		for _, v := range byName(ks.ViewsOf(t.Name), func(t *schema.Table) string { return t.Name }) {
			d.view(v)
		}
	}
}

func (d *describer) view(t *schema.Table) {
	d.add(quote(t.Keyspace), "materialized_view", quote(t.Name), createView(t, d.internals, d.release))
}

func (d *describer) index(t *schema.Table, ix *schema.Index) {
	d.add(quote(t.Keyspace), "index", quote(ix.Name), createIndex(t, ix))
}
