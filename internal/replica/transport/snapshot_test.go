// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/test/memnet"
)

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// snapshotSink stores the received snapshots.
type snapshotSink struct {
	mu   sync.Mutex
	got  [][]byte
	errs []error
}

func (s *snapshotSink) take(_ NodeID, r io.Reader) error {
	b, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.errs = append(s.got, b), append(s.errs, err)
	return err
}

// TestSnapshotBesideFrames checks that a snapshot takes the time required by its rate, arrives completely, and does not
// delay frames.
func TestSnapshotBesideFrames(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var s snapshotSink
		var frames numbers
		start(t, n, 1, handlers{snapshot: s.take, frame: frames.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{SnapshotRate: 1 << 20, SnapshotChunk: 64 << 10})
		two.SetAddress(id(1), host(1))
		data := noise(3<<20 + 12345)
		begin := time.Now()
		done := make(chan error)
		go func() { done <- sendWhole(two, data) }()
		for i := uint32(1); i <= 2000; i++ {
			two.Send(id(1), number(i))
			synctest.Wait()
			if last, _, _ := frames.state(); last != i {
				t.Fatalf("frame %d was delayed", i)
			}
			time.Sleep(time.Millisecond)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 2900*time.Millisecond || took > 3200*time.Millisecond {
			t.Fatalf("3 MiB at 1 MiB/s took %v", took)
		}
		if len(s.got) != 1 || !bytes.Equal(s.got[0], data) {
			t.Fatal("the snapshot changed in transit")
		}
	})
}

// TestSnapshotResumes checks that a snapshot whose connection breaks repeatedly resumes at its position in the same
// reader. Only bytes that were in flight may be sent twice.
func TestSnapshotResumes(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var s snapshotSink
		start(t, n, 1, handlers{snapshot: s.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{SnapshotRate: 1 << 20, SnapshotChunk: 10_000})
		two.SetAddress(id(1), host(1))
		n.Delay(host(2), host(1), 30*time.Millisecond)
		data := noise(5 << 20)
		done := make(chan error, 1)
		go func() { done <- sendWhole(two, data) }()
		for range 7 {
			time.Sleep(500 * time.Millisecond)
			n.Drop(host(2), host(1))
		}
		// A cut without an error must be detected by the missing keep-alives. The sender must then request the result
		// again.
		n.Cut(host(1), host(2), true)
		time.Sleep(8 * time.Second)
		n.Cut(host(1), host(2), false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(s.got) != 1 || !bytes.Equal(s.got[0], data) {
			t.Fatalf("%d readers", len(s.got))
		}
		c := two.Counters()
		if c.SnapshotsResumed < 7 || c.Dials < 9 || c.SnapshotBytesSent > uint64(len(data))+2<<20 {
			t.Fatalf("%+v", c)
		}
	})
}

// TestSnapshotResultSurvivesCut checks that losing a connection while the handler works has no effect. The sender must
// receive the result, and the handler must run only once.
func TestSnapshotResultSurvivesCut(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var runs atomic.Int32
		start(t, n, 1, handlers{snapshot: func(_ NodeID, r io.Reader) error {
			runs.Add(1)
			_, err := io.Copy(io.Discard, r)
			time.Sleep(10 * time.Second)
			return err
		}}, Options{})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		done := make(chan error, 1)
		go func() { done <- sendWhole(two, []byte("all there is")) }()
		for range 5 {
			time.Sleep(time.Second)
			n.Drop(host(2), host(1))
		}
		if err := <-done; err != nil || runs.Load() != 1 {
			t.Fatalf("%v, %d runs", err, runs.Load())
		}
	})
}

// TestSnapshotFailures checks the errors of the sender and the receiver of a failed snapshot.
func TestSnapshotFailures(t *testing.T) {
	send := func(t *testing.T, n *memnet.Network, o Options, size int) (*Transport, error) {
		two := start(t, n, 2, handlers{}, o)
		two.SetAddress(id(1), host(1))
		return two, sendWhole(two, noise(size))
	}
	t.Run("nobody there", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			if _, err := send(t, n, Options{}, 1); !errors.Is(err, ErrUnreachable) {
				t.Fatal(err)
			}
		})
	})
	t.Run("handler refuses at once", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			start(t, n, 1, handlers{snapshot: func(NodeID, io.Reader) error {
				return errors.New("disk is full")
			}}, Options{})
			_, err := send(t, n, Options{}, 10<<20)
			if r := (*RemoteError)(nil); !errors.As(err, &r) || r.Text != "disk is full" {
				t.Fatal(err)
			}
		})
	})
	t.Run("handler stops before the end", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			start(t, n, 1, handlers{snapshot: func(_ NodeID, r io.Reader) error {
				_, err := io.CopyN(io.Discard, r, 1<<20)
				return err
			}}, Options{})
			if _, err := send(t, n, Options{}, 1<<20); err == nil ||
				!strings.Contains(err.Error(), "did not read it completely") {
				t.Fatal(err)
			}
		})
	})
	t.Run("too large", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			start(t, n, 1, handlers{snapshot: new(snapshotSink).take}, Options{SnapshotBytes: 100})
			if _, err := send(t, n, Options{}, 101); !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
		})
	})
	t.Run("sender vanishes", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			var s snapshotSink
			start(t, n, 1, handlers{snapshot: s.take}, Options{})
			two := start(t, n, 2, handlers{}, Options{SnapshotRate: 1 << 20})
			two.SetAddress(id(1), host(1))
			done := make(chan error, 1)
			go func() { done <- sendWhole(two, noise(5<<20)) }()
			time.Sleep(time.Second)
			two.Close()
			if err := <-done; err == nil {
				t.Fatal("sent")
			}
			time.Sleep(31 * time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.errs) != 1 || !errors.Is(s.errs[0], ErrSnapshot) {
				t.Fatal(s.errs)
			}
		})
	})
	t.Run("receiver vanishes", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			var s snapshotSink
			one := start(t, n, 1, handlers{snapshot: s.take}, Options{})
			time.AfterFunc(time.Second, func() { one.Close() })
			begin := time.Now()
			_, err := send(t, n, Options{SnapshotRate: 1 << 20}, 5<<20)
			if took := time.Since(begin); err == nil || took < 30*time.Second || took > 40*time.Second {
				t.Fatalf("%v after %v", err, took)
			}
		})
	})
	t.Run("too many", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			start(t, n, 1, handlers{snapshot: new(snapshotSink).take}, Options{SnapshotsInbound: 1})
			two := start(t, n, 2, handlers{}, Options{SnapshotRate: 1 << 20})
			two.SetAddress(id(1), host(1))
			done := make(chan error, 2)
			for range 2 {
				go func() { done <- sendWhole(two, noise(2<<20)) }()
			}
			if first, second := <-done, <-done; !errors.Is(first, ErrBusy) || second != nil {
				t.Fatal(first, second)
			}
		})
	})
}

// TestManySnapshots checks that many small snapshots in sequence are all accepted. Completed snapshots must not exclude
// other snapshots, and only some of the completed snapshots may be kept.
func TestManySnapshots(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		one := start(t, n, 1, handlers{snapshot: new(snapshotSink).take}, Options{SnapshotsInbound: 2})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		began := time.Now()
		for i := range 5 * transfersKept {
			if err := sendWhole(two, noise(100)); err != nil {
				t.Fatalf("snapshot %d: %v", i, err)
			}
		}
		if took := time.Since(began); took > one.opts.ResumeTimeout/2 {
			t.Errorf("they took %s", took)
		}
		one.receiver.mu.Lock()
		defer one.receiver.mu.Unlock()
		if kept := len(one.receiver.transfers); kept > 2*transfersKept {
			t.Errorf("%d are remembered", kept)
		}
	})
}

// TestSnapshotChecksum checks that the reader returns an error if the received snapshot differs from the sent snapshot.
// A chunk is modified before its frame is created.
func TestSnapshotChecksum(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var s snapshotSink
		start(t, n, 1, handlers{snapshot: s.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		conn, err := two.book.of(id(1)).connect(t.Context(), Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		defer two.release(conn.raw)
		b := appendFrame(nil, kindSnapshotBegin, []byte{1, 0, 0, 0, 0, 0, 0, 0}, []byte{4, 0, 0, 0, 0, 0, 0, 0})
		b = appendFrame(b, kindSnapshotChunk, make([]byte, 8), []byte("abcd"))
		b = appendFrame(b, kindSnapshotEnd, []byte{1, 2, 3, 4}, nil)
		_, _ = conn.Write(b)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.errs) != 1 || !errors.Is(s.errs[0], ErrSnapshot) ||
			!strings.Contains(fmt.Sprint(s.errs[0]), "checksum") {
			t.Fatal(s.errs)
		}
	})
}

// TestSnapshotEmpty checks that an empty snapshot can be sent.
func TestSnapshotEmpty(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var s snapshotSink
		start(t, n, 1, handlers{snapshot: s.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		if err := sendWhole(two, nil); err != nil || len(s.got) != 1 || len(s.got[0]) != 0 {
			t.Fatal(err, s.got)
		}
	})
}

// fakeLoad is a Load that is set by a test.
type fakeLoad bool

func (l *fakeLoad) Overloaded() bool { return bool(*l) }

// TestSnapshotsGiveWay checks that snapshots are sent at a quarter of their rate while the machine is overloaded.
func TestSnapshotsGiveWay(t *testing.T) {
	pressed := fakeLoad(true)
	b := rateLimiter{rate: 1 << 20, load: &pressed}
	booked := func() time.Duration {
		b.free = time.Now().Add(time.Hour) // so far in the future that only reservations change it
		before := b.free
		b.take(1 << 20)
		return b.free.Sub(before)
	}
	if got := booked(); got != 4*time.Second {
		t.Errorf("1 MiB at 1 MiB/s takes %v while the machine is short", got)
	}
	pressed = false
	if got := booked(); got != time.Second {
		t.Errorf("1 MiB at 1 MiB/s takes %v", got)
	}
}
