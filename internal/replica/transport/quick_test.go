// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/memnet"
)

// TestQuickFailureDetection checks that with short intervals, a process that stops responding on a running machine is
// detected within IdleTimeout by callers that wait for a response. Later calls must fail immediately.
func TestQuickFailureDetection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		o := Options{KeepAlive: 300 * time.Millisecond, IdleTimeout: 1500 * time.Millisecond}
		begun := make(chan struct{}, 1)
		one := start(t, n, 1, handlers{}, o)
		start(t, n, 2, handlers{command: func(ctx context.Context, _ NodeID, _ []byte, r Responder) {
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
		time.Sleep(10 * time.Second) // in virtual time; keep-alives are sent during that time
		select {
		case err := <-done:
			t.Fatalf("a live node: %v", err)
		default:
		}
		n.Cut(host(2), host(1), true) // the node sends no more data
		stopped := time.Now()
		if err := <-done; !errors.Is(err, ErrLost) || time.Since(stopped) > 1500*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(stopped))
		}
		if _, err := one.Call(t.Context(), id(2), []byte("x")); !errors.Is(err, ErrUnreachable) ||
			time.Since(stopped) > 3*time.Second+time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(stopped))
		}
		began := time.Now()
		if _, err := one.Call(t.Context(), id(2), []byte("x")); !errors.Is(err, ErrUnreachable) ||
			time.Since(began) > 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		n.Cut(host(2), host(1), false)
	})
}

// TestLargeFramesPass checks that a frame above QueueBytes is sent even if small frames never leave the queue empty,
// and that the queue remains limited.
func TestLargeFramesPass(t *testing.T) {
	o := newOutbox(1000<<10, 6000<<10)
	small, large := make([]byte, 100<<10-headLen), make([]byte, 5000<<10)
	drain := func() {
		b, ok := o.take()
		if !ok {
			t.Fatal("nothing waits")
		}
		o.written(b)
	}
	fill := func() (n int) { // each frame is a separate write
		for o.put(kindRaft, small, nil) {
			n++
		}
		return n
	}
	if n := fill(); n != 10 || !o.put(kindRaft, large, nil) {
		t.Fatalf("%d small frames, want 10 and a large one", n)
	}
	if o.put(kindRaft, large, nil) || o.bytes() > 6000<<10+headLen {
		t.Fatalf("%d bytes wait", o.bytes())
	}
	for range 10 {
		drain()
	}
	if n := fill(); n != 10 {
		t.Fatalf("%d small frames after a large frame, want 10", n)
	}
	drain()
	if o.fits(1) || !o.put(kindRaft, large, nil) {
		t.Fatal("the space of the large frame was not released correctly")
	}
	o.reset(false)
	if fill() != 10 || !o.put(kindRaft, large, nil) {
		t.Fatal("a reset leaves bytes in the buffer")
	}
}
