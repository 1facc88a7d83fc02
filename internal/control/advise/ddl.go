// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// declared is a column of a proposed table.
type declared struct {
	name   string
	typ    string
	static bool
	desc   bool
}

// declaration is a proposed table.
type declaration struct {
	keyspace, name       string
	partition, clustered []declared
	rest                 []declared
	ttl                  int32
}

// declarationOf returns the current declaration of a table.
func declarationOf(t *schema.Table) *declaration {
	d := &declaration{keyspace: t.Keyspace, name: t.Name, ttl: t.Options.DefaultTTL}
	for _, c := range t.PartitionKey {
		d.partition = append(d.partition, columnOf(c))
	}
	for _, c := range t.Clustering {
		d.clustered = append(d.clustered, columnOf(c))
	}
	for _, c := range slices.Concat(t.Statics, t.Regulars) {
		d.rest = append(d.rest, columnOf(c))
	}
	return d
}

func columnOf(c *schema.Column) declared {
	return declared{name: c.Name, typ: c.Type.String(), static: c.Kind == schema.Static, desc: c.Desc}
}

// declaration returns the declaration of the table with the key of a design.
func (o *design) declaration() *declaration {
	d := declarationOf(o.table)
	if o.unit == nil && o.buckets == 0 {
		d.partition = append(d.partition, d.clustered[0])
		d.clustered = d.clustered[1:]
	} else {
		typ := cqltype.Native(cqltype.Int)
		if o.unit != nil {
			typ = cqltype.Native(o.unit.typ)
		}
		d.partition = append(d.partition, declared{name: o.name(), typ: typ.String()})
	}
	if len(d.clustered) == 0 {
		for i := range d.rest {
			d.rest[i].static = false
		}
	}
	return d
}

// String returns the CREATE TABLE statement.
func (d *declaration) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE %s.%s (\n", cqltype.QuoteName(d.keyspace), cqltype.QuoteName(d.name))
	for _, c := range slices.Concat(d.partition, d.clustered, d.rest) {
		static := ""
		if c.static {
			static = " static"
		}
		fmt.Fprintf(&b, "  %s %s%s,\n", cqltype.QuoteName(c.name), c.typ, static)
	}
	key := namesOf(d.partition)
	if len(d.partition) > 1 {
		key = "(" + key + ")"
	}
	if len(d.clustered) > 0 {
		key += ", " + namesOf(d.clustered)
	}
	fmt.Fprintf(&b, "  PRIMARY KEY (%s)\n)", key)
	var with []string
	if slices.ContainsFunc(d.clustered, func(c declared) bool { return c.desc }) {
		var order []string
		for _, c := range d.clustered {
			direction := "ASC"
			if c.desc {
				direction = "DESC"
			}
			order = append(order, cqltype.QuoteName(c.name)+" "+direction)
		}
		with = append(with, "CLUSTERING ORDER BY ("+strings.Join(order, ", ")+")")
	}
	if d.ttl > 0 {
		with = append(with, fmt.Sprint("default_time_to_live = ", d.ttl))
	}
	if len(with) > 0 {
		b.WriteString(" WITH " + strings.Join(with, " AND "))
	}
	return b.String() + ";"
}

func namesOf(columns []declared) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = cqltype.QuoteName(c.name)
	}
	return strings.Join(names, ", ")
}
