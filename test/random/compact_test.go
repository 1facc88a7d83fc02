// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"strings"
)

// The tests send no INSERT JSON to compact tables whose columns are all keys, because Cassandra 5.0 writes no row for
// such an INSERT. They also send no INSERT without a value to compact tables, because Cassandra rejects such an INSERT
// later than Ilion.

// compactSchema draws a table with COMPACT STORAGE and returns the statements that create it. A table without
// clustering columns has several other columns. A table with clustering columns has at most one other column.
func (t *table) compactSchema(n int) []string {
	t.compact = true
	for i := range 1 + t.IntN(5)/4 {
		t.partition = append(t.partition, column{fmt.Sprint("p", i), t.small(0, true)})
	}
	for i := range t.IntN(4) {
		k := t.small(0, true)
		for k.name == "decimal" { // decimals are stored by value (docs/compatibility.md, decimal-clustering)
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

// prefix draws the clustering columns that identify a row. In a compact table, prefix sometimes draws only the first
// clustering columns.
func (t *table) prefix() []column {
	if !t.compact || len(t.clustering) < 2 || t.chance(0.7) {
		return t.clustering
	}
	return t.clustering[:1+t.IntN(len(t.clustering)-1)]
}

// flat reports whether the table is a compact table without clustering columns. For such a table, Cassandra 5.0
// rejects INSERT JSON, an INSERT of only the key, and a conditional DELETE. Reads through an index fail.
func (t *table) flat() bool { return t.compact && len(t.clustering) == 0 }
