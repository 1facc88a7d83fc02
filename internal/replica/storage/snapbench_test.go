// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// openDisk opens a store on the disk.
func openDisk(b *testing.B) *Store {
	dir, err := os.MkdirTemp("", "ilion-bench")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(vfs.Default, dir, Options{CacheBytes: 8 << 20, MemtableBytes: 8 << 20, MinFreeDisk: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = s.Close()
		_ = os.RemoveAll(dir)
	})
	s.InstallTable(Table{ID: testTable, Clustering: 1})
	return s
}

// peak samples the heap until stop is called. stop returns the maximum growth in MiB.
func peak() (stop func() float64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	base, done, ended := m.HeapInuse, make(chan struct{}), make(chan struct{})
	var most atomic.Uint64
	go func() {
		defer close(ended)
		var m runtime.MemStats
		for {
			if runtime.ReadMemStats(&m); m.HeapInuse > most.Load() {
				most.Store(m.HeapInuse)
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() float64 {
		close(done)
		<-ended
		return float64(int64(most.Load())-int64(base)) / (1 << 20)
	}
}

// BenchmarkSnapshot captures, receives, and installs a partition of 256 MiB on disk. The rows have 1 kB or 100 bytes,
// half of which are random. The rate in MB/s counts keys and values.
func BenchmarkSnapshot(b *testing.B) {
	for _, c := range []struct {
		name  string
		bytes int
	}{{"row=1k", 1000}, {"row=100", 100}} {
		b.Run(c.name, func(b *testing.B) { benchSnapshot(b, c.bytes) })
	}
}

func benchSnapshot(b *testing.B, rowBytes int) {
	const total = 256 << 20
	from := openDisk(b)
	size := fillBench(b, from, total, rowBytes)
	ctx := context.Background()
	var took [3]time.Duration
	var most [3]float64
	phase := func(i int, work func() error) {
		stop, begun := peak(), time.Now()
		err := work()
		took[i] += time.Since(begun)
		most[i] = max(most[i], stop())
		if err != nil {
			b.Fatal(err)
		}
	}
	rounds := 0
	for b.Loop() {
		rounds++
		to := openDisk(b)
		var p, q *SnapshotFile
		phase(0, func() (err error) { p, err = from.CaptureSnapshot(ctx, 1); return err })
		phase(1, func() (err error) { q, err = to.ReceiveSnapshot(ctx, stream(p)); return err })
		phase(2, func() error { return to.InstallSnapshot(ctx, keys.Span{}, stream(q), nil) })
		b.ReportMetric(float64(p.Size())/float64(size), "stored/raw")
		if err := errors.Join(p.Close(), q.Close()); err != nil {
			b.Fatal(err)
		}
	}
	for i, name := range []string{"capture", "receive", "install"} {
		b.ReportMetric(float64(size)*float64(rounds)/1e6/took[i].Seconds(), name+"-MB/s")
		b.ReportMetric(most[i], name+"-MiB")
	}
}

// fillBench writes about total bytes of rows, and returns the number of rows and the bytes including their keys.
func fillBench(b *testing.B, s *Store, total, rowBytes int) (size int) {
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, rowBytes-40)
	for i := 0; size < total; {
		batch := s.NewBatch()
		for range 500 {
			for at := 0; at < len(value)/2; at += 8 {
				binary.LittleEndian.PutUint64(value[at:][:8:8], rng.Uint64())
			}
			ck := string(binary.BigEndian.AppendUint32(nil, uint32(i)))
			mu := mutation(string(binary.BigEndian.AppendUint32([]byte("partition"), uint32(i/100))), ck, int64(i),
				func(b *row.Builder) {
					b.Live(0, 0)
					b.Cell(1, nil, value, 0, 0)
				})
			if err := batch.Mutate(&mu); err != nil {
				b.Fatal(err)
			}
			size += len(mu.Ops[0].Operand) + 32
			i++
		}
		if err := batch.Commit(); err != nil {
			b.Fatal(err)
		}
		batch.Close()
	}
	createPartition(b, s, 1, keys.Span{Table: testTable})
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	return size
}
