// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// The benchmarks run four replicas in one process on one disk. The fsync rate of the disk and the CPU limit the
// results. Compare only figures from the same run. docs/dev/replication.md contains the command.

// drive lets clients run f until b.N calls have finished, and reports calls per second and the 99th percentile.
func drive(b *testing.B, clients int, f func(client int, r *rand.Rand) error) {
	var next atomic.Int64
	var failed atomic.Int64
	var wg sync.WaitGroup
	took := make([][]time.Duration, clients)
	began, used := time.Now(), cpu()
	for c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(c), 1))
			for next.Add(1) <= int64(b.N) {
				at := time.Now()
				if err := f(c, r); err != nil {
					failed.Add(1)
					continue
				}
				took[c] = append(took[c], time.Since(at))
			}
		}()
	}
	wg.Wait()
	elapsed := time.Since(began).Seconds()
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	b.ReportMetric(float64(b.N)/elapsed, "ops/s")
	b.ReportMetric(float64((cpu()-used).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
	if len(all) > 0 {
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	}
	if n := failed.Load(); n > 0 {
		b.ReportMetric(float64(n), "failed")
	}
}

type done chan raftgroup.Outcome

func (d done) Done(o raftgroup.Outcome) { d <- o }

func (c *cluster) syncs() (n uint64) {
	for _, m := range c.nodes {
		n += m.log.Metrics().Syncs
	}
	return n
}

// command returns 144 bytes with a random key.
func command(r *rand.Rand) []byte {
	var key [16]byte
	binary.BigEndian.PutUint64(key[:], r.Uint64())
	binary.BigEndian.PutUint64(key[8:], r.Uint64())
	return ledger.Set(string(key[:]), make([]byte, 126))
}

func BenchmarkCluster(b *testing.B) {
	for _, shape := range []struct{ groups, clients int }{{1, 1}, {1, 128}, {8, 256}, {256, 512}} {
		b.Run(fmt.Sprintf("groups=%d/clients=%d", shape.groups, shape.clients), func(b *testing.B) {
			c := newCluster(b, vfs.Default, b.TempDir(), shape.groups, raftgroup.Options{AlwaysTick: true})
			defer c.close()
			c.elect()
			waiters := make([]done, shape.clients)
			for i := range waiters {
				waiters[i] = make(done, 1)
			}
			b.Run("write", func(b *testing.B) {
				b.ReportAllocs()
				before := c.syncs()
				drive(b, shape.clients, func(client int, r *rand.Rand) error {
					g := client % shape.groups
					m := c.leader(g)
					if err := m.runner.Propose(m.groups[g], 0, command(r), waiters[client]); err != nil {
						return err
					}
					return (<-waiters[client]).Err
				})
				b.ReportMetric(float64(c.syncs()-before)/float64(b.N), "syncs/op")
			})
			b.Run("read=index", func(b *testing.B) {
				drive(b, shape.clients, func(client int, _ *rand.Rand) error {
					g := client % shape.groups
					m := c.leader(g)
					if err := m.runner.ReadIndex(m.groups[g], waiters[client]); err != nil {
						return err
					}
					if o := <-waiters[client]; o.Err != nil {
						return o.Err
					}
					_, err := m.store.Get(uint64(g+1), "0123456789abcdef")
					return err
				})
			})
			b.Run("read=lease", func(b *testing.B) {
				drive(b, shape.clients, func(client int, _ *rand.Rand) error {
					g := client % shape.groups
					m := c.leader(g)
					return m.runner.Read(context.Background(), m.groups[g], func() error {
						_, err := m.store.Get(uint64(g+1), "0123456789abcdef")
						return err
					})
				})
			})
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle measures the cores and the heap that one node needs for 1,000 idle groups. One operation is five
// seconds.
func BenchmarkIdle(b *testing.B) {
	for _, quiet := range []bool{false, true} {
		b.Run(fmt.Sprintf("quiet=%v", quiet), func(b *testing.B) {
			const groups = 1000
			c := newCluster(b, vfs.Default, b.TempDir(), groups, raftgroup.Options{AlwaysTick: !quiet})
			defer c.close()
			c.elect()
			deadline := time.Now().Add(30 * time.Second)
			for quiet && time.Now().Before(deadline) && c.nodes[0].quiet.Load() < groups {
				<-time.After(100 * time.Millisecond)
			}
			runtime.GC()
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			began, used := time.Now(), cpu()
			for b.Loop() {
				<-time.After(5 * time.Second)
			}
			b.ReportMetric(float64(cpu()-used)/float64(time.Since(began))/4, "cores/node")
			b.ReportMetric(float64(mem.HeapAlloc)/(4*groups)/1024, "KiB/replica")
			b.ReportMetric(float64(c.nodes[0].quiet.Load()), "quiet")
		})
	}
}
