// SPDX-License-Identifier: Apache-2.0

//go:build unix

package remote

import (
	"context"
	"sync"
	"syscall"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
)

// cpu returns the processor time of this process in nanoseconds.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// instant is a replica that completes requests immediately without any work.
type instant struct{ *fake }

func (instant) Write(_ context.Context, _ *command.Mutation, done command.Completion) error {
	done.Done(command.Outcome{})
	return nil
}

func (instant) WriteNow(_ *command.Mutation, done command.Completion) (bool, error) {
	done.Done(command.Outcome{})
	return true, nil
}

func (i instant) Read(_ context.Context, _ *command.Read, v command.Visitor) error { return i.rows(v) }

// counted is a completion that counts its calls.
type counted struct{ all *sync.WaitGroup }

func (c counted) Done(command.Outcome) { c.all.Done() }

// BenchmarkForward measures the processor time of a 1 KiB write to another node, and of a read of a 1 KiB row from that
// node. Both ends are in this process over a network in memory, and the replica itself has no cost. 64 writes are in
// flight at a time.
func BenchmarkForward(b *testing.B) {
	w := newNodePair(b)
	var r row.Row
	r.Cells = []row.Cell{{Column: 1, Value: make([]byte, 1024), Timestamp: 5, Expiry: row.NoExpiry}}
	w.rows = func(v command.Visitor) error {
		if _, err := v.Partition(1, []byte("k"), nil); err != nil {
			return err
		}
		_, err := v.Row([]byte("c"), &r)
		return err
	}
	far := instant{w.fake}
	w.server.targets = oneTarget{far}
	var bld row.Builder
	bld.Reset(row.Unstamped)
	bld.Cell(1, nil, make([]byte, 1024), 0, row.NoExpiry)
	m := mutation()
	m.Ops[0].Operand = bld.Append(nil)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		used := cpu()
		for n := 0; n < b.N; n += 64 {
			var all sync.WaitGroup
			for range min(64, b.N-n) {
				all.Add(1)
				if err := w.replica.Write(b.Context(), m, counted{&all}); err != nil {
					b.Fatal(err)
				}
			}
			all.Wait()
		}
		b.ReportMetric((cpu()-used)/float64(b.N), "cpu-ns/op")
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		used := cpu()
		b.RunParallel(func(p *testing.PB) {
			q := command.Read{Table: 7, Key: []byte("k"), Limit: 1}
			for p.Next() {
				if err := w.replica.Read(context.Background(), &q, blind{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric((cpu()-used)/float64(b.N), "cpu-ns/op")
	})
}
