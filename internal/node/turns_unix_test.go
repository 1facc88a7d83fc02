// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"
)

// BenchmarkConditionalWrite measures the processor time of prepared statements that change one column of an existing
// row. The benchmark compares an unconditional update, an update with IF EXISTS, and an update with a condition on
// another column.
func BenchmarkConditionalWrite(b *testing.B) {
	const turn, rows = 1000, 20_000
	n := startTestNode(b, Options{})
	c := newClient(b, n)
	c.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE v.t (k int PRIMARY KEY, a int, b int, w text)")
	insert := c.prepare("INSERT INTO v.t (k, a, b, w) VALUES (?, 0, 1, 'some text')")
	for i := range rows {
		c.execute(insert, number(i))
	}
	names := []string{"plain", "exists", "equal"}
	var kinds [][16]byte
	for _, condition := range []string{"", " IF EXISTS", " IF b = 1"} {
		kinds = append(kinds, c.prepare("UPDATE v.t SET a = ? WHERE k = ?"+condition))
	}
	settle(b, n)
	took := make([]time.Duration, len(kinds))
	b.ResetTimer()
	for from := 0; from < b.N; from += turn {
		for t, id := range kinds {
			before := processorTime()
			for i := from; i < min(from+turn, b.N); i++ {
				c.execute(id, number(i), number(i%rows))
			}
			took[t] += processorTime() - before
		}
	}
	reportTurns(b, took, names...)
}

// reportTurns reports the CPU time of an operation of each kind and its ratio to the first kind.
func reportTurns(b *testing.B, took []time.Duration, names ...string) {
	for i, name := range names {
		b.ReportMetric(float64(took[i].Nanoseconds())/1000/float64(b.N), name+"-cpu-us/op")
		if i > 0 {
			b.ReportMetric(took[i].Seconds()/took[0].Seconds(), name+"-x")
		}
	}
}

// settle brings the memtables of the store into the state that they have on a node that has run for some time. A new
// store starts with a memtable of 256 KiB and doubles the size each time. It flushes memtables only when their total
// size reaches half the size of a full memtable. Until then, reads search up to eight memtables.
func settle(b *testing.B, n *Node) {
	for range 9 {
		if err := n.store.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// number encodes an int in the form that drivers send.
func number(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
