// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"strings"
)

// In compact tables no INSERT JSON is drawn where all columns are keys, because Cassandra 5.0 writes no row for it, and
// no INSERT without a value, because it refuses that later than Ilion.

// compactSchema draws a table with COMPACT STORAGE, and says how to make it. Without clustering columns it has several
// others, else one or none.
func (t *table) compactSchema(n int) []string {
	t.compact = true
	for i := range 1 + t.IntN(5)/4 {
		t.partition = append(t.partition, column{fmt.Sprint("p", i), t.small(0, true)})
	}
	for i := range t.IntN(4) {
		k := t.small(0, true)
		for k.name == "decimal" { // stored by value: docs/compatibility.md, decimal-clustering
			k = t.small(0, true)
		}
		t.clustering = append(t.clustering, column{fmt.Sprint("c", i), k})
		t.order = append(t.order, pick(t.draw, "ASC", "ASC", "DESC"))
	}
	values := 1 + t.IntN(4)
	if len(t.clustering) > 0 {
		values = min(1, t.IntN(6))
	}
	for i := range values {
		t.regular = append(t.regular, column{fmt.Sprint("r", i), t.small(0, false)})
	}
	var text, order []string
	for _, c := range t.all() {
		text = append(text, c.name+" "+c.kind.name)
	}
	for i, c := range t.clustering {
		order = append(order, c.name+" "+t.order[i])
	}
	create := fmt.Sprintf("CREATE TABLE t (%s, PRIMARY KEY (%s)) WITH COMPACT STORAGE", strings.Join(text, ", "),
		primary(t.partition, t.clustering))
	if len(order) > 0 {
		create += " AND CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")"
	}
	ks := fmt.Sprint("tables", n)
	out := []string{"DROP KEYSPACE IF EXISTS " + ks,
		"CREATE KEYSPACE " + ks + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"USE " + ks, create,
		"CREATE FUNCTION plus(a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS " +
			"'return b == null ? a : a + b;'",
		"CREATE AGGREGATE total(int) SFUNC plus STYPE int INITCOND 0"}
	return out
}

// prefix draws the clustering columns that name a row: all of them, or in a compact table the first ones once in a
// while.
func (t *table) prefix() []column {
	if !t.compact || len(t.clustering) < 2 || t.chance(0.7) {
		return t.clustering
	}
	return t.clustering[:1+t.IntN(len(t.clustering)-1)]
}

// flat reports whether the table is a compact one without clustering columns. Cassandra 5.0 refuses INSERT JSON, an
// INSERT of the key alone and a DELETE with a condition there, and fails at reads by an index.
func (t *table) flat() bool { return t.compact && len(t.clustering) == 0 }
