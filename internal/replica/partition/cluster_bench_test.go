// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// cpu returns the CPU time of the process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// slots limits the number of writes in progress, and counts their outcomes.
type slots struct {
	free chan struct{}
	mu   sync.Mutex
	err  error
}

func (s *slots) Done(o command.Outcome) {
	if o.Err != nil {
		s.mu.Lock()
		s.err = o.Err
		s.mu.Unlock()
	}
	<-s.free
}

// BenchmarkReplicaSet measures the CPU time of requests to a partition with four replicas. The result is the total CPU
// time of all replicas, which are in this process and use disks in memory.
func BenchmarkReplicaSet(b *testing.B) {
	run := func(name string, f func(b *testing.B, w *testCluster, r *Replica)) {
		b.Run(name, func(b *testing.B) {
			w := newTestCluster(b, 4)
			p := w.newTable(0, 1, 2, 3)
			r := w.replica(w.leader(p.ID), p.ID)
			b.ReportAllocs()
			b.ResetTimer()
			began := cpu()
			f(b, w, r)
			b.StopTimer()
			b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
	for _, clients := range []int{1, 128} {
		run(fmt.Sprint("write/clients=", clients), func(b *testing.B, w *testCluster, r *Replica) {
			s := &slots{free: make(chan struct{}, clients)}
			m := put("key-000000", 1)
			m.Dedupe.Coordinator[0] = 1
			for i := range b.N {
				s.free <- struct{}{}
				for n, d := i, len(m.Key)-1; d > 3; n, d = n/10, d-1 {
					m.Key[d] = byte('0' + n%10)
				}
				m.Dedupe.Sequence++
				if err := r.Write(b.Context(), m, s); err != nil {
					b.Fatal(err)
				}
			}
			for range clients {
				s.free <- struct{}{}
			}
			if s.err != nil {
				b.Fatal(s.err)
			}
		})
	}
	run("counter/clients=16", func(b *testing.B, w *testCluster, r *Replica) {
		var clients sync.WaitGroup
		for c := range 16 {
			clients.Go(func() {
				for i := c; i < b.N; i += 16 {
					if _, err := decide(b.Context(), r, add("hot", 1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
	})
	run("read", func(b *testing.B, w *testCluster, r *Replica) {
		if err := write(b.Context(), r, put("k", 1)); err != nil {
			b.Fatal(err)
		}
		for range b.N {
			if _, _, err := get(b.Context(), r, "k", dberr.Quorum); err != nil {
				b.Fatal(err)
			}
		}
	})
}
