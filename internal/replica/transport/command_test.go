// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/test/memnet"
)

// pair starts node 1 with a command handler, and node 2, which knows the address of node 1.
func pair(t *testing.T, n *memnet.Network, h func(context.Context, NodeID, []byte, Responder), o Options) (one,
	two *Transport) {
	one = start(t, n, 1, handlers{command: h}, o)
	two = start(t, n, 2, handlers{}, o)
	two.SetAddress(id(1), host(1))
	return one, two
}

// TestCalls checks that many concurrent calls get their own responses, in any order of responses.
func TestCalls(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		_, two := pair(t, n, func(_ context.Context, from NodeID, b []byte, r Responder) {
			time.Sleep(time.Duration(b[0]) * time.Millisecond)
			if b[0]%7 == 0 {
				r.Fail(fmt.Errorf("no %d", b[0]))
				return
			}
			r.End(append([]byte{from[0]}, b...))
		}, Options{})
		var all sync.WaitGroup
		for i := range 256 {
			all.Go(func() {
				b, err := two.Call(t.Context(), id(1), []byte{byte(255 - i)})
				if (255-i)%7 == 0 {
					if r := (*RemoteError)(nil); !errors.As(err, &r) || r.Text != fmt.Sprintf("no %d", 255-i) {
						t.Error(err)
					}
				} else if err != nil || !bytes.Equal(b, []byte{2, byte(255 - i)}) {
					t.Error(b, err)
				}
			})
		}
		all.Wait()
	})
}

// TestLateResponse checks that a handler may return first and respond later from another goroutine.
func TestLateResponse(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		_, two := pair(t, n, func(_ context.Context, _ NodeID, _ []byte, r Responder) {
			time.AfterFunc(time.Second, func() { r.End([]byte("late")) })
		}, Options{})
		if b, err := two.Call(t.Context(), id(1), nil); err != nil || string(b) != "late" {
			t.Fatal(b, err)
		}
	})
}

// TestDeadlineAndCancel checks that the context of a handler ends at the caller's deadline and when the caller's
// context is canceled.
func TestDeadlineAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ended := make(chan error, 1)
		_, two := pair(t, n, func(ctx context.Context, _ NodeID, b []byte, _ Responder) {
			if string(b) == "deadline" {
				if d, ok := ctx.Deadline(); !ok || time.Until(d) > 2*time.Second {
					t.Errorf("the deadline was not sent: %v", d)
				}
			}
			<-ctx.Done()
			ended <- ctx.Err()
		}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := two.Call(ctx, id(1), []byte("deadline")); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begin) != 2*time.Second {
			t.Fatal(err, time.Since(begin))
		}
		<-ended
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin = time.Now()
		if _, err := two.Call(ctx, id(1), []byte("cancel")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
			t.Fatal(err, time.Since(begin))
		}
	})
}

// TestDeadlineWithoutCancel checks that a handler's context ends at the deadline even if the caller cannot send a
// cancellation.
func TestDeadlineWithoutCancel(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ended := make(chan time.Time, 1)
		_, two := pair(t, n, func(ctx context.Context, _ NodeID, _ []byte, r Responder) {
			<-ctx.Done()
			ended <- time.Now()
		}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, func() { n.Cut(host(2), host(1), true) })
		begin := time.Now()
		_, _ = two.Call(ctx, id(1), nil)
		if took := (<-ended).Sub(begin); took != 2*time.Second {
			t.Fatal(took)
		}
	})
}

// TestStream checks that pages arrive in order, that the sender is at most PagesAhead pages ahead of the reader, and
// that Close stops the sender.
func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var sent atomic.Int32
		ended := make(chan error, 1)
		_, two := pair(t, n, func(_ context.Context, _ NodeID, b []byte, r Responder) {
			for i := range int(b[0]) {
				if err := r.Page(bytes.Repeat([]byte{byte(i)}, 100_000)); err != nil {
					r.Fail(err)
					ended <- err
					return
				}
				sent.Add(1)
			}
			ended <- r.End(nil)
		}, Options{PagesAhead: 3})
		s, err := two.Stream(t.Context(), id(1), []byte{100})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			synctest.Wait()
			if ahead := int(sent.Load()) - i; ahead > 3 || (ahead < 3 && i < 97) {
				t.Fatalf("%d pages ahead", ahead)
			}
			b, err := s.Next()
			if err != nil || len(b) != 100_000 || b[0] != byte(i) {
				t.Fatalf("page %d: %d bytes, %v", i, len(b), err)
			}
		}
		if b, err := s.Next(); err != nil || len(b) != 0 {
			t.Fatal(b, err)
		}
		if _, err := s.Next(); err != io.EOF {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		s, err = two.Stream(t.Context(), id(1), []byte{100})
		if err != nil {
			t.Fatal(err)
		}
		s.Next()
		s.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := two.Call(t.Context(), id(1), []byte{1}); !errors.Is(err, ErrOneAnswer) {
			t.Fatal(err)
		}
	})
}

// TestCommandBounds checks that both sides reject a request above a limit immediately and without other effects.
func TestCommandBounds(t *testing.T) {
	for _, c := range []struct {
		name        string
		near, far   Options
		length, fit int
	}{
		{"the caller's number", Options{CommandsPerPeer: 3}, Options{}, 1, 3},
		{"the other's number", Options{}, Options{CommandsPerPeer: 4}, 1, 4},
		{"the other's bytes", Options{}, Options{CommandBytes: 1000}, 300, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				release := make(chan struct{})
				start(t, n, 1, handlers{command: func(_ context.Context, _ NodeID, _ []byte, r Responder) {
					<-release
					r.End(nil)
				}}, c.far)
				two := start(t, n, 2, handlers{}, c.near)
				two.SetAddress(id(1), host(1))
				results := make(chan error, 10)
				for range 10 {
					go func() {
						_, err := two.Call(t.Context(), id(1), make([]byte, c.length))
						results <- err
					}()
				}
				synctest.Wait()
				if busy := len(results); busy != 10-c.fit {
					t.Errorf("got %d rejections", busy)
				}
				for len(results) > 0 {
					if err := <-results; !errors.Is(err, ErrBusy) {
						t.Error(err)
					}
				}
				close(release)
				for range c.fit {
					if err := <-results; err != nil {
						t.Error(err)
					}
				}
				if _, err := two.Call(t.Context(), id(1), nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCommandLost checks the errors of a caller when the connection breaks, when no process listens, and when the
// transport is closed.
func TestCommandLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ended := make(chan struct{}, 1)
		one, two := pair(t, n, func(ctx context.Context, _ NodeID, b []byte, r Responder) {
			if len(b) == 0 {
				r.End(nil)
				return
			}
			<-ctx.Done()
			ended <- struct{}{}
		}, Options{})
		time.AfterFunc(time.Second, func() { n.Drop(host(2), host(1)) })
		if _, err := two.Call(t.Context(), id(1), []byte("x")); !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
		<-ended
		if _, err := two.Call(t.Context(), id(1), nil); err != nil {
			t.Fatal("after a break: ", err)
		}
		one.Close()
		synctest.Wait()
		if _, err := two.Call(t.Context(), id(1), nil); !errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		if _, err := two.Call(t.Context(), id(9), nil); !errors.Is(err, ErrUnreachable) ||
			!errors.Is(err, ErrNoAddress) {
			t.Fatal(err)
		}
		two.Close()
		if _, err := two.Call(t.Context(), id(1), nil); !errors.Is(err, ErrUnreachable) || two.Send(id(1), nil) {
			t.Fatal(err)
		}
	})
}
