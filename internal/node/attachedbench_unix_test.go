// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkAttachedIndex measures the cost of writes to a table with a storage-attached index, and of queries that use
// the index. The table holds 50,000 rows with 1,000 distinct values. Range queries read pages of 100 rows from a range
// that holds a hundredth of the rows.
func BenchmarkAttachedIndex(b *testing.B) {
	n := startTestNode(b, Options{})
	c := newClient(b, n)
	c.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	insert := map[string][16]byte{}
	for _, name := range []string{"plain", "indexed"} {
		c.query("CREATE TABLE v." + name + " (k int PRIMARY KEY, a int, b int, c text, d text)")
	}
	prepare := func(name string) {
		insert[name] = c.prepare("INSERT INTO v." + name + " (k, a, b, c, d) VALUES (?, ?, ?, 'some text', 'some other text')")
	}
	c.query("CREATE INDEX ia ON v.indexed (a) USING 'sai'")
	prepare("plain")
	prepare("indexed")
	settle(b, n)
	b.Run("write", func(b *testing.B) { // alternate between the tables
		const turn = 1000
		names := []string{"plain", "indexed"}
		took := make([]time.Duration, len(names))
		for from := 0; from < b.N; from += turn {
			for t, name := range names {
				before := processorTime()
				for i := from; i < min(from+turn, b.N); i++ {
					c.execute(insert[name], number(i%50_000), number(i%1000), number(i))
				}
				took[t] += processorTime() - before
			}
		}
		reportTurns(b, took, names...)
	})
	c.query("CREATE INDEX ib ON v.indexed (b) USING 'sai'")
	prepare("indexed")
	for i := range 50_000 {
		c.execute(insert["indexed"], number(i), number(i%1000), number(i))
	}
	for _, q := range []struct {
		name, where string
		values      func(i int) [][]byte
	}{
		{"equal", "a = ?", func(i int) [][]byte { return [][]byte{number(i % 1000)} }},
		{"both", "a = ? AND b >= ?", func(i int) [][]byte { return [][]byte{number(i % 1000), number(25_000)} }},
		{"range", "b >= ? AND b < ?", func(i int) [][]byte {
			return [][]byte{number(i % 49_000), number(i%49_000 + 500)}
		}},
	} {
		id := c.prepare(fmt.Sprintf("SELECT k, b FROM v.indexed WHERE %s LIMIT 100", q.where))
		b.Run("query="+q.name, func(b *testing.B) {
			i, rows, before := 0, 0, processorTime()
			for b.Loop() {
				rows += c.execute(id, q.values(i)...).RowCount
				i++
			}
			b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1000/float64(i), "cpu-us/op")
			b.ReportMetric(float64(rows)/float64(i), "rows/op")
		})
	}
}
