// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/poll"
)

// BenchmarkWriteWithView measures the processor time of an update of a row of 100 bytes, by statements as text from 16
// sessions and without sockets: to a table without views, with one view whose key has no other column, and with one
// that moves the row; until the views have followed.
func BenchmarkWriteWithView(b *testing.B) {
	for _, c := range []struct{ name, key string }{{"plain", ""}, {"view=follows", "c, k"}, {"view=moves", "v, k, c"}} {
		b.Run(c.name, func(b *testing.B) {
			n := startTestNode(b, Options{InitialPartitions: 4})
			first := newClient(b, n)
			first.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
			first.query("CREATE TABLE v.t (k int, c int, v int, w text, PRIMARY KEY (k, c))")
			if c.key != "" {
				first.query("CREATE MATERIALIZED VIEW v.m AS SELECT * FROM v.t WHERE v IS NOT NULL AND k IS NOT NULL AND " +
					"c IS NOT NULL PRIMARY KEY (" + c.key + ")")
			}
			const sessions = 16
			var clients []*client
			for range sessions {
				clients = append(clients, newClient(b, n))
			}
			before := processorTime()
			b.ResetTimer()
			var all sync.WaitGroup
			for s, own := range clients {
				all.Go(func() {
					for i := s; i < b.N; i += sessions {
						own.query(fmt.Sprintf("INSERT INTO v.t (k, c, v, w) VALUES (%d, 1, %d, '%0100d')", i%20_000,
							i%977, i))
					}
				})
			}
			all.Wait()
			poll.UntilNone(b, "views follow", time.Minute, func() string {
				if left := due(n); left > 0 {
					return fmt.Sprint(left, " hints are left")
				}
				return ""
			})
			b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1000/float64(b.N), "cpu-us/op")
		})
	}
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
