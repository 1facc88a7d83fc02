// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/test/memnet"
)

// TestFramesInOrder checks that frames arrive in order and once, that they are coalesced, and that Send copies them.
func TestFramesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var got numbers
		start(t, n, 1, handlers{frame: got.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		frame := make([]byte, 4)
		for i := uint32(1); i <= 10_000; i++ {
			copy(frame, number(i))
			if !two.Send(id(1), frame) {
				t.Fatalf("frame %d was dropped", i)
			}
		}
		synctest.Wait()
		if last, count, wrong := got.state(); last != 10_000 || count != 10_000 || wrong != "" {
			t.Fatalf("%d frames up to %d, %s", count, last, wrong)
		}
		if c := two.Counters(); c.Writes > 100 || c.FramesSent != 10_000 {
			t.Fatalf("%+v", c)
		}
	})
}

// TestSlowPeer checks that a peer that reads no data fills only its own queue and does not delay other peers. When the
// queue is full, Send must return false immediately.
func TestSlowPeer(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		release := make(chan struct{})
		var fast ledger
		start(t, n, 1, handlers{frame: func(NodeID, []byte) error { <-release; return nil }}, Options{})
		start(t, n, 2, handlers{frame: fast.take}, Options{})
		three := start(t, n, 3, handlers{}, Options{QueueBytes: 1 << 20})
		three.SetAddress(id(1), host(1))
		three.SetAddress(id(2), host(2))
		three.Send(id(1), []byte("first"))
		synctest.Wait()
		sent := 0
		for three.Send(id(1), make([]byte, 64<<10)) {
			synctest.Wait()
			if sent++; sent > 100 {
				t.Fatal("the queue is not limited")
			}
		}
		if sent < 15 { // 1 MiB is queued, and up to 256 KiB more are in the network
			t.Fatalf("full after %d frames of 64 KiB", sent)
		}
		if !three.Send(id(2), []byte("hello")) {
			t.Fatal("another peer's frame was dropped")
		}
		synctest.Wait()
		if got := fast.all(); len(got) != 1 || three.Counters().FramesDropped != 1 {
			t.Fatalf("%v, %+v", got, three.Counters())
		}
		close(release)
		synctest.Wait()
		if !three.Send(id(1), []byte("again")) {
			t.Fatal("still full")
		}
	})
}

// TestLargeFrame checks that one frame above the queue limit is sent together with small frames, and that a frame above
// FrameBytes is never sent.
func TestLargeFrame(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var got ledger
		start(t, n, 1, handlers{frame: got.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{QueueBytes: 1000, FrameBytes: 3 << 20})
		n.Delay(host(2), host(1), 10*time.Millisecond) // no frame leaves the queue before this goroutine waits
		two.SetAddress(id(1), host(1))
		if two.Send(id(1), make([]byte, 3<<20+1)) {
			t.Fatal("a frame above FrameBytes passed")
		}
		if !two.Send(id(1), make([]byte, 3<<20)) || two.Send(id(1), make([]byte, 2<<20)) ||
			!two.Send(id(1), []byte("x")) {
			t.Fatal("want a large frame and a small one, and no second large one")
		}
		time.Sleep(time.Second) // virtual time, as in all tests in a bubble
		if all := got.all(); len(all) != 2 || len(all[0]) != 3<<20+2 {
			t.Fatalf("%d frames", len(all))
		}
	})
}

// TestRefusedIsNotSilence checks that an ended process can be distinguished from a silent process, and that no frames
// are queued for it in the meantime.
func TestRefusedIsNotSilence(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var gone, refused, silent atomic.Int32
		o := Options{Observer: events{
			refused: func(p Peer) {
				if gone.Add(1); p.Node != id(1) || p.Incarnation == 0 {
					t.Errorf("gone: %+v", p)
				}
			},
			dialFailed: func(err error) {
				if errors.Is(err, syscall.ECONNREFUSED) {
					refused.Add(1)
				} else {
					silent.Add(1)
				}
			},
		}}
		two := start(t, n, 2, handlers{}, o)
		two.SetAddress(id(1), host(1))
		two.Send(id(1), []byte("nobody is there yet"))
		time.Sleep(time.Second)
		if gone.Load() != 0 || refused.Load() < 3 {
			t.Fatalf("before the first response: ended %d, refused %d", gone.Load(), refused.Load())
		}
		var got ledger
		one := start(t, n, 1, handlers{frame: got.take}, Options{})
		time.Sleep(3 * time.Second)
		if !two.Send(id(1), []byte("a")) {
			t.Fatal("dropped")
		}
		synctest.Wait()
		if fmt.Sprint(got.all()) != "[2:a]" {
			t.Fatal(got.all())
		}

		n.Cut(host(1), host(2), true)
		time.Sleep(20 * time.Second)
		if gone.Load() != 0 || silent.Load() == 0 {
			t.Fatalf("silence: gone %d, silent %d", gone.Load(), silent.Load())
		}
		if two.Send(id(1), []byte("b")) {
			t.Fatal("a frame for a silent peer was queued")
		}
		n.Cut(host(1), host(2), false)
		time.Sleep(10 * time.Second)
		if !two.Send(id(1), []byte("c")) {
			t.Fatal("dropped after the cut")
		}
		synctest.Wait()
		if gone.Load() != 0 {
			t.Fatal("a cut was reported as a refused connection")
		}
		begin := time.Now()
		one.Close()
		synctest.Wait()
		if gone.Load() != 1 || time.Since(begin) != 0 {
			t.Fatalf("refused %d times, %v after the end of the process", gone.Load(), time.Since(begin))
		}
		if all := strings.Join(got.all(), " "); all != "2:a 2:c" {
			t.Fatal(all)
		}
	})
}

// TestDeparture checks that a process that stops in an orderly way announces this once, after its last frame. A process
// that stops in another way must not announce it.
func TestDeparture(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var heard ledger
		start(t, n, 2, handlers{frame: heard.take}, Options{Observer: events{
			departed: func(p Peer) { _ = heard.take(p.Node, []byte("departed")) },
		}})
		for _, word := range []bool{false, true} {
			one := start(t, n, 1, handlers{}, Options{})
			one.SetAddress(id(2), host(2))
			for range 2 {
				one.Send(id(2), []byte("frame"))
			}
			synctest.Wait()
			one.Send(id(2), []byte("the last"))
			began := time.Now()
			if word {
				one.Depart()
			} else {
				synctest.Wait()
			}
			one.Close()
			synctest.Wait()
			if time.Since(began) != 0 {
				t.Errorf("it took %v", time.Since(began))
			}
			time.Sleep(time.Minute)
		}
		const life = "1:frame 1:frame 1:the last"
		if got := strings.Join(heard.all(), " "); got != life+" "+life+" 1:departed" {
			t.Error(got)
		}
	})
}

// TestDepartureUnheard checks that a process does not wait for peers that no longer respond.
func TestDepartureUnheard(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, 2, handlers{frame: func(NodeID, []byte) error { return nil }}, Options{})
		one := start(t, n, 1, handlers{}, Options{})
		one.SetAddress(id(2), host(2))
		one.SetAddress(id(3), host(3))
		one.Send(id(2), []byte("frame"))
		one.Send(id(3), []byte("frame"))
		synctest.Wait()
		n.Cut(host(1), host(2), true)
		began := time.Now()
		one.Depart()
		if took := time.Since(began); took != departTime {
			t.Errorf("it took %v", took)
		}
	})
}

// TestRestartElsewhere checks that a node that has restarted at another address is found. The node dials the other
// nodes, and they learn its address.
func TestRestartElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var got ledger
		two := start(t, n, 2, handlers{frame: func(NodeID, []byte) error { return nil }}, Options{})
		one := start(t, n, 1, handlers{frame: got.take}, Options{})
		two.SetAddress(id(1), host(1))
		two.Send(id(1), []byte("before"))
		synctest.Wait()
		one.Close()
		time.Sleep(time.Minute)
		again := startAt(t, n, 1, "elsewhere", handlers{frame: got.take}, Options{})
		again.SetAddress(id(2), host(2))
		again.Send(id(2), []byte("I am back"))
		synctest.Wait()
		if !two.Send(id(1), []byte("after")) {
			t.Fatal("dropped although it was received")
		}
		synctest.Wait()
		if fmt.Sprint(got.all()) != "[2:before 2:after]" || two.Address(id(1)) != "elsewhere" {
			t.Fatal(got.all(), two.Address(id(1)))
		}
	})
}

// TestSilentDeathElsewhere checks that a connection to a replaced process is closed immediately, although it appears to
// be alive.
func TestSilentDeathElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var old, fresh ledger
		two := start(t, n, 2, handlers{frame: func(NodeID, []byte) error { return nil }}, Options{})
		start(t, n, 1, handlers{frame: old.take}, Options{})
		two.SetAddress(id(1), host(1))
		two.Send(id(1), []byte("before"))
		synctest.Wait()
		n.Cut(host(2), host(1), true)
		n.Cut(host(1), host(2), true)
		again := startAt(t, n, 1, "elsewhere", handlers{frame: fresh.take}, Options{})
		again.SetAddress(id(2), host(2))
		again.Send(id(2), []byte("I am the new one"))
		synctest.Wait()
		two.Send(id(1), []byte("after"))
		synctest.Wait()
		if fmt.Sprint(fresh.all()) != "[2:after]" {
			t.Fatal(fresh.all())
		}
	})
}

// TestBreaksKeepOrder checks that frames may be lost, but are never reordered or duplicated, if connections break
// repeatedly, for any speed of the receiver.
func TestBreaksKeepOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var got numbers
		start(t, n, 1, handlers{frame: func(from NodeID, frame []byte) error {
			time.Sleep(500 * time.Microsecond)
			return got.take(from, frame)
		}}, Options{})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		n.Delay(host(2), host(1), 3*time.Millisecond)
		for i := uint32(1); i <= 20_000; i++ {
			two.Send(id(1), number(i))
			if i%100 == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			if i%1500 == 0 {
				n.Drop(host(2), host(1))
			}
		}
		time.Sleep(time.Minute)
		two.Send(id(1), number(20_001))
		time.Sleep(time.Second)
		if last, count, wrong := got.state(); last != 20_001 || count < 1000 || wrong != "" {
			t.Fatalf("%d frames up to %d, %s", count, last, wrong)
		}
	})
}

// TestIdle checks that an idle connection remains open, at the cost of one keep-alive per second.
func TestIdle(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var got ledger
		start(t, n, 1, handlers{frame: got.take}, Options{})
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		two.Send(id(1), []byte("a"))
		time.Sleep(time.Hour)
		two.Send(id(1), []byte("b"))
		synctest.Wait()
		if c := two.Counters(); c.Dials != 1 || c.Writes > 3700 || len(got.all()) != 2 {
			t.Fatalf("%+v, %v", c, got.all())
		}
	})
}

// TestForget checks that a node that was removed from the address book is not dialed again.
func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		two := start(t, n, 2, handlers{}, Options{})
		two.SetAddress(id(1), host(1))
		two.Send(id(1), []byte("a"))
		time.Sleep(time.Second)
		two.Forget(id(1))
		before := two.Counters().Dials
		time.Sleep(time.Hour)
		if after := two.Counters().Dials; after != before || before == 0 || two.Send(id(1), []byte("a")) {
			t.Fatalf("%d dials, then %d", before, after)
		}
	})
}

// TestBackoff checks that pauses increase up to their limit, and that they are shortened by at most half.
func TestBackoff(t *testing.T) {
	tr, err := New(Self{Node: id(1)}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for n, most := range map[int]time.Duration{0: 20 * time.Millisecond, 3: 160 * time.Millisecond,
		7: 2 * time.Second, 1000: 2 * time.Second} {
		if got := tr.backoff(n); got < most/2 || got > most {
			t.Errorf("backoff(%d) is %v, want %v to %v", n, got, most/2, most)
		}
	}
}
