// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// cpu returns the CPU time of the process, including compactions.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs the loop and reports the elapsed time and the CPU time per unit of work.
func measure(b *testing.B, units int, work func(i int)) {
	b.ReportAllocs()
	begun, i := cpu(), 0
	for b.Loop() {
		work(i)
		i++
	}
	b.ReportMetric(float64((cpu()-begun).Nanoseconds())/1000/float64(i*units), "cpu-us/row")
}

const (
	benchPartitions = 300
	benchRows       = 1000
)

// benchStore is a store on disk with 300 partitions of 1000 rows. Each row has five columns of 40 bytes.
type benchStore struct {
	*Store
	m     command.Mutation
	r     command.Read
	b     row.Builder
	value []byte
}

func openBench(b *testing.B) *benchStore {
	dir, err := os.MkdirTemp("", "ilion-bench")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(vfs.Default, dir, Options{CacheBytes: 1 << 30, MinFreeDisk: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = s.Close()
		_ = os.RemoveAll(dir)
	})
	s.InstallTable(Table{ID: testTable, Clustering: 1})
	return &benchStore{Store: s, value: bytes.Repeat([]byte("0123456789"), 4)}
}

func (s *benchStore) key(i int) (pk, ck []byte) {
	return fmt.Appendf(nil, "partition-%06d", i%benchPartitions),
		fmt.Appendf(nil, "row-%08d", i/benchPartitions%benchRows)
}

// insert writes row i, and update writes only the row's third column.
func (s *benchStore) insert(b *testing.B, i int, update bool) {
	pk, ck := s.key(i)
	s.b.Reset(int64(1_700_000_000_000_000 + i))
	if update {
		s.b.Cell(3, nil, s.value, 0, 0)
	} else {
		s.b.Live(0, 0)
		for c := range uint32(5) {
			s.b.Cell(c+1, nil, s.value, 0, 0)
		}
	}
	s.m = command.Mutation{
		Table: testTable,
		Token: token.Hash(pk),
		Key:   pk,
		Ops:   append(s.m.Ops[:0], command.Op{Clustering: ck, Operand: s.b.Bytes()}),
	}
	if err := s.Apply(s.m); err != nil {
		b.Fatal(err)
	}
}

func (s *benchStore) fill(b *testing.B) {
	for i := range benchPartitions * benchRows {
		s.insert(b, i, false)
	}
	if err := s.Sync(); err != nil {
		b.Fatal(err)
	}
}

func (s *benchStore) compact(b *testing.B) {
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
		b.Fatal(err)
	}
}

func (s *benchStore) point(b *testing.B, i int) {
	pk, ck := s.key(i * 7919)
	s.r = command.Read{
		Table:  testTable,
		Key:    pk,
		Token:  token.Hash(pk),
		Now:    1,
		Slices: append(s.r.Slices[:0], command.Slice{Start: ck, End: keys.After(bytes.Clone(ck))}),
	}
	var v silent
	if err := s.Read(context.Background(), &s.r, &v); err != nil || v.rows != 1 {
		b.Fatal(v.rows, err)
	}
}

// BenchmarkStore measures writes, point reads, and scans of recent and of compacted data.
func BenchmarkStore(b *testing.B) {
	b.Run("insert", func(b *testing.B) {
		s := openBench(b)
		measure(b, 1, func(i int) { s.insert(b, i, false) })
	})
	b.Run("update", func(b *testing.B) {
		s := openBench(b)
		measure(b, 1, func(i int) { s.insert(b, i, true) })
	})
	s := openBench(b)
	s.fill(b)
	scan := func(b *testing.B) {
		measure(b, benchRows, func(i int) {
			pk, _ := s.key(i)
			r := command.Read{Table: testTable, Key: pk, Token: token.Hash(pk), Now: 1}
			var v silent
			if err := s.Read(context.Background(), &r, &v); err != nil || v.rows != benchRows {
				b.Fatal(v.rows, err)
			}
		})
	}
	point := func(b *testing.B) { measure(b, 1, func(i int) { s.point(b, i) }) }
	b.Run("point/fresh", point)
	b.Run("scan/fresh", scan)
	for i := 0; i < benchPartitions*benchRows; i += 2 {
		s.insert(b, i, true)
	}
	b.Run("scan/half-updated", scan)
	s.compact(b)
	b.Run("point/compacted", point)
	b.Run("scan/compacted", scan)
	b.Run("point/missing-partition", func(b *testing.B) {
		measure(b, 1, func(i int) {
			pk := fmt.Appendf(nil, "nobody-%06d", i)
			r := command.Read{Table: testTable, Key: pk, Token: token.Hash(pk), Now: 1}
			var v silent
			if err := s.Read(context.Background(), &r, &v); err != nil || v.rows != 0 {
				b.Fatal(v.rows, err)
			}
		})
	})
	if err := s.mark(testTable, flagDeletions); err != nil {
		b.Fatal(err)
	}
	b.Run("point/compacted-headers", point)
}

// BenchmarkGet reads rows of 1 KB from a table without clustering columns.
func BenchmarkGet(b *testing.B) {
	s := openBench(b)
	s.InstallTable(Table{ID: testTable})
	s.value = bytes.Repeat([]byte("0123456789"), 20)
	const n = 100_000
	write := func(i int) {
		pk := fmt.Appendf(nil, "key-%012d", i)
		s.b.Reset(int64(i + 1))
		s.b.Live(0, 0)
		for c := range uint32(5) {
			s.b.Cell(c+1, nil, s.value, 0, 0)
		}
		s.m = command.Mutation{Table: testTable, Token: token.Hash(pk), Key: pk,
			Ops: append(s.m.Ops[:0], command.Op{Operand: s.b.Bytes()})}
		if err := s.Apply(s.m); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("insert", func(b *testing.B) { measure(b, 1, write) })
	for i := range n {
		write(i)
	}
	s.compact(b)
	// warm the cache
	if err := s.Read(context.Background(), &command.Read{Table: testTable, Now: 1}, &silent{}); err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		measure(b, 1, func(i int) {
			pk := fmt.Appendf(nil, "key-%012d", i*7919%n)
			r := command.Read{Table: testTable, Key: pk, Token: token.Hash(pk), Now: 1}
			var v silent
			if err := s.Read(context.Background(), &r, &v); err != nil || v.rows != 1 {
				b.Fatal(v.rows, err)
			}
		})
	})
}

// BenchmarkQueue reads the first live row after 10^5 deleted rows: immediately after the last deletion, later, and
// after a restart.
func BenchmarkQueue(b *testing.B) {
	for b.Loop() {
		fs := vfs.NewMem()
		s, err := Open(fs, "db", Options{})
		if err != nil {
			b.Fatal(err)
		}
		fill(b, s, 0, queueLen+10)
		for i := range queueLen {
			apply(b, s, remove("queue", queueKey(i), 2, 1))
		}
		_, rows, first := peek(b, s, false)
		followHints(b, s)
		_, _, later := peek(b, s, false)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		if s, err = Open(fs, "db", Options{}); err != nil {
			b.Fatal(err)
		}
		_, _, restart := peek(b, s, false)
		followHints(b, s)
		_, _, again := peek(b, s, false)
		b.ReportMetric(float64(rows), "rows-at-once")
		b.ReportMetric(float64(first.Microseconds()), "us-at-once")
		b.ReportMetric(float64(later.Microseconds()), "us-later")
		b.ReportMetric(float64(restart.Microseconds()), "us-restarted")
		b.ReportMetric(float64(again.Microseconds()), "us-restarted-later")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

var partitions = flag.Int("partitions", 100_000,
	"logical partitions of BenchmarkManyPartitions; 10000000 takes minutes")

// BenchmarkManyPartitions writes many partitions with one small row, and counts, estimates, and reads them.
func BenchmarkManyPartitions(b *testing.B) {
	s := openBench(b)
	s.InstallTable(Table{ID: testTable})
	s.value = []byte("small")
	pk := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	begun := cpu()
	for i := range *partitions {
		s.b.Reset(1)
		s.b.Live(0, 0)
		s.b.Cell(1, nil, s.value, 0, 0)
		key := pk(i)
		s.m = command.Mutation{Table: testTable, Token: token.Hash(key), Key: key,
			Ops: append(s.m.Ops[:0], command.Op{Operand: s.b.Bytes()})}
		if err := s.Apply(s.m); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	insert := cpu() - begun
	whole := keys.Span{Table: testTable}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(*partitions) }
	for b.Loop() {
		begun := cpu()
		n := 0
		_, err := s.WalkPartitions(b.Context(), whole, &PartitionWalk{Now: 1, Max: math.MaxInt},
			func(token.Token, int64) { n++ })
		if n != *partitions || err != nil {
			b.Fatal(n, err)
		}
		b.ReportMetric(per(cpu()-begun), "count-cpu-us/partition")
		wall := time.Now()
		e, err := s.Estimate(whole)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(wall).Microseconds()), "estimate-us")
		b.ReportMetric(float64(e.Partitions)/float64(*partitions), "estimate-ratio")
		b.ReportMetric(per(insert), "insert-cpu-us/partition")
		b.ReportMetric(float64(s.Metrics().DiskBytes)/float64(*partitions), "disk-B/partition")
		begun = cpu()
		const reads = 10_000
		for i := range reads {
			key := pk(i * 7919 % *partitions)
			var v silent
			if err := s.Read(context.Background(), &command.Read{Table: testTable, Key: key, Token: token.Hash(key),
				Now: 1}, &v); err != nil ||
				v.rows != 1 {
				b.Fatal(v.rows, err)
			}
		}
		b.ReportMetric(float64((cpu()-begun).Microseconds())/reads, "read-cpu-us")
	}
}

// BenchmarkPointReadBesideRanges reads one row of a partition with very many deleted ranges, none of which covers the
// row. The sweeper has already processed the ranges.
func BenchmarkPointReadBesideRanges(b *testing.B) {
	for _, n := range []int{0, 1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("ranges=%d", n), func(b *testing.B) {
			s := openBench(b)
			apply(b, s.Store, mutationOf(command.OpHeader, "other", "", 1, func(rb *row.Builder) { rb.DeleteRow(1) }))
			for i := range 200_000 {
				if i%100 == 1 {
					apply(b, s.Store, insert("k", string(rangeCK(i)), 1))
				}
			}
			deleteRanges(b, s.Store, n, 2, 100)
			spreadDue(b, s.Store)
			s.compact(b)
			var v silent
			ck := rangeCK(50_001)
			r := command.Read{
				Table:  testTable,
				Key:    []byte("k"),
				Token:  token.Hash([]byte("k")),
				Now:    1,
				Slices: []command.Slice{{Start: ck, End: append(ck, 0)}},
			}
			measure(b, 1, func(int) {
				v.rows = 0
				if err := s.Read(context.Background(), &r, &v); err != nil || v.rows != 1 {
					b.Fatal(v.rows, err)
				}
			})
		})
	}
}
