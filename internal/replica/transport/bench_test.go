// SPDX-License-Identifier: Apache-2.0

//go:build unix

package transport

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
)

// cpu returns the processor time of this process in nanoseconds.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func bothWays(b *testing.B, f func(b *testing.B, near, far Options)) {
	b.Run("plain", func(b *testing.B) { f(b, Options{}, Options{}) })
	b.Run("tls", func(b *testing.B) {
		a := authority(b)
		f(b, Options{TLS: configOf(b, a, id(2), Validity{})}, Options{TLS: configOf(b, a, id(1), Validity{})})
	})
}

// BenchmarkFrames measures frames from Send to Receive over loopback TCP. Both ends are in this process, and the
// processor time includes both ends.
func BenchmarkFrames(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			bothWays(b, func(b *testing.B, near, far Options) {
				var got atomic.Int64
				_, address := loopback(b, 1, handlers{frame: func(NodeID, []byte) error {
					got.Add(1)
					return nil
				}}, far)
				two, _ := loopback(b, 2, handlers{}, near)
				two.SetAddress(id(1), address)
				frame := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				before, sent, used := two.Counters().Writes, int64(0), cpu()
				for b.Loop() {
					for !two.Send(id(1), frame) {
						runtime.Gosched()
					}
					sent++
				}
				for got.Load() < sent {
					runtime.Gosched()
				}
				b.ReportMetric((cpu()-used)/float64(sent), "cpu-ns/op")
				b.ReportMetric(float64(sent)/float64(two.Counters().Writes-before), "frames/write")
			})
		})
	}
}

// BenchmarkPingPong measures the latency of a quorum: a frame and its response, one at a time.
func BenchmarkPingPong(b *testing.B) {
	bothWays(b, func(b *testing.B, near, far Options) {
		back := make(chan struct{}, 1)
		var one *Transport
		one, address := loopback(b, 1, handlers{frame: func(from NodeID, f []byte) error {
			one.Send(from, f)
			return nil
		}}, far)
		two, there := loopback(b, 2, handlers{frame: func(NodeID, []byte) error {
			back <- struct{}{}
			return nil
		}}, near)
		two.SetAddress(id(1), address)
		one.SetAddress(id(2), there)
		frame := make([]byte, 200)
		used, n := cpu(), 0
		for b.Loop() {
			two.Send(id(1), frame)
			<-back
			n++
		}
		b.ReportMetric((cpu()-used)/float64(n), "cpu-ns/op")
	})
}

// BenchmarkCalls measures commands of 200 bytes that are echoed.
func BenchmarkCalls(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			_, address := loopback(b, 1, handlers{command: echo}, Options{})
			two, _ := loopback(b, 2, handlers{}, Options{})
			two.SetAddress(id(1), address)
			request := make([]byte, 200)
			b.ReportAllocs()
			b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
			used := cpu()
			call := func() {
				if _, err := two.Call(context.Background(), id(1), request); err != nil {
					b.Error(err)
				}
			}
			b.ResetTimer()
			if callers == 1 {
				for range b.N {
					call()
				}
			} else {
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						call()
					}
				})
			}
			b.ReportMetric((cpu()-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkSnapshot measures a snapshot of 64 MiB without a limit.
func BenchmarkSnapshot(b *testing.B) {
	bothWays(b, func(b *testing.B, near, far Options) {
		near.SnapshotRate = 1 << 40
		_, address := loopback(b, 1, handlers{snapshot: func(_ NodeID, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}}, far)
		two, _ := loopback(b, 2, handlers{}, near)
		two.SetAddress(id(1), address)
		data := make([]byte, 64<<20)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := sendWhole(two, data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
