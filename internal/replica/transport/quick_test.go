// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestQuickFailureDetection proves that with short intervals a process that stops answering, and whose machine goes on, is noticed
// within IdleTimeout by those who wait for an answer, and that soon behind it calls end at once.
func TestQuickFailureDetection(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		o := Options{KeepAlive: 300 * time.Millisecond, IdleTimeout: 1500 * time.Millisecond}
		begun := make(chan struct{}, 1)
		one := start(t, n, 1, Handlers{}, o)
		start(t, n, 2, Handlers{OnCommand: func(ctx context.Context, _ NodeID, _ []byte, r *Responder) {
			begun <- struct{}{}
			<-ctx.Done()
			r.Fail(ctx.Err())
		}}, o)
		one.SetAddress(id(2), host(2))
		done := make(chan error, 1)
		go func() {
			_, err := one.Call(t.Context(), id(2), []byte("x"))
			done <- err
		}()
		<-begun
		time.Sleep(10 * time.Second) // virtual: the connection is kept alive meanwhile
		select {
		case err := <-done:
			t.Fatalf("a live node: %v", err)
		default:
		}
		n.Cut(host(2), host(1), true) // it sends nothing any more
		stopped := time.Now()
		if err := <-done; !errors.Is(err, ErrLost) || time.Since(stopped) > 1500*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(stopped))
		}
		if _, err := one.Call(t.Context(), id(2), []byte("x")); !errors.Is(err, ErrUnreachable) || time.Since(stopped) > 3*time.Second+time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(stopped))
		}
		began := time.Now()
		if _, err := one.Call(t.Context(), id(2), []byte("x")); !errors.Is(err, ErrUnreachable) || time.Since(began) > 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		n.Cut(host(2), host(1), false)
	})
}

// TestLargeFramesPass proves that a frame above QueueBytes gets through although small ones never leave the queue empty, and that what
// waits stays bounded.
func TestLargeFramesPass(t *testing.T) {
	o := newOutbox(1000 << 10)
	small, large := make([]byte, 100<<10-headLen), make([]byte, 5000<<10)
	drain := func() {
		b, ok := o.take()
		if !ok {
			t.Fatal("nothing waits")
		}
		o.written(b)
	}
	// Each frame is a write of its own.
	fill := func() (n int) {
		for o.put(kindRaft, small, nil) {
			n++
		}
		return n
	}
	if n := fill(); n != 10 {
		t.Fatalf("%d small frames, want 10", n)
	}
	if o.put(kindRaft, large, nil) {
		t.Fatal("a large frame into a full queue")
	}
	if o.put(kindRaft, small, nil) {
		t.Fatal("small frames take the room that a large one waits for")
	}
	rounds := 0
	for passed := false; !passed; rounds++ {
		if rounds > 10 {
			t.Fatal("small frames keep the large one out")
		}
		drain()
		fill()
		passed = o.put(kindRaft, large, nil)
	}
	if o.put(kindRaft, large, nil) || o.bytes() > 5500<<10+headLen {
		t.Fatalf("%d bytes wait", o.bytes())
	}
	drain()
}
