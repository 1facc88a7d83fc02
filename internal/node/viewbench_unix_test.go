// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
)

// BenchmarkWriteWithView measures the CPU time from an update of a row of 100 bytes until the views are up to date.
// The benchmark compares a table without views, a table with a view whose key has no other column, and a table with a
// view that moves the row. The updates are text statements from 16 sessions without sockets. The tables take turns, so
// other load on the machine affects them equally.
func BenchmarkWriteWithView(b *testing.B) {
	const sessions, turn = 16, 10_000
	n := startTestNode(b, Options{InitialPartitions: 4})
	first := newClient(b, n)
	first.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	tables := []struct{ name, key string }{{"plain", ""}, {"follows", "c, k"}, {"moves", "v, k, c"}}
	for _, t := range tables {
		first.query("CREATE TABLE v." + t.name + " (k int, c int, v int, w text, PRIMARY KEY (k, c))")
		if t.key != "" {
			first.query("CREATE MATERIALIZED VIEW v.of_" + t.name + " AS SELECT * FROM v." + t.name +
				" WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (" + t.key + ")")
		}
	}
	var clients []*client
	for range sessions {
		clients = append(clients, newClient(b, n))
	}
	settle(b, n)
	took := make([]time.Duration, len(tables))
	b.ResetTimer()
	for from := 0; from < b.N; from += turn {
		for t := range tables {
			before := processorTime()
			var all sync.WaitGroup
			for s, own := range clients {
				all.Go(func() {
					for i := from + s; i < min(from+turn, b.N); i += sessions {
						own.query(fmt.Sprintf("INSERT INTO v.%s (k, c, v, w) VALUES (%d, 1, %d, '%0100d')", tables[t].name,
							i%20_000, i%977, i))
					}
				})
			}
			all.Wait()
			eventually.None(b, "views follow", time.Minute, func() string {
				if left := due(n); left > 0 {
					return fmt.Sprint(left, " hints are left")
				}
				return ""
			})
			took[t] += processorTime() - before
		}
	}
	reportTurns(b, took, "plain", "follows", "moves")
}
