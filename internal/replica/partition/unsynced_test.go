// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// sink is a visitor that accepts all rows.
type sink struct{}

func (sink) Partition(token.Token, []byte, *row.Row) (command.Step, error) { return command.More, nil }
func (sink) Row([]byte, *row.Row) (command.Step, error)                    { return command.More, nil }

// TestReadWaitsForSync checks, for all kinds of writes, that a read of a write that is not durable waits for the next
// sync (P5). Reads of other keys must not wait. In Periodic mode, reads may return writes that a crash can lose.
func TestReadWaitsForSync(t *testing.T) {
	k := []byte("k")
	writers := map[string]func(h *Host, r *Replica, done result) error{
		"write": func(_ *Host, r *Replica, done result) error { return r.Write(t.Context(), put("k", 1), done) },
		"batch": func(_ *Host, r *Replica, done result) error {
			return r.WriteAll(t.Context(), []Part{{Mutation: put("other", 1)}, {Mutation: put("k", 1)}}, done)
		},
		"truncate": func(_ *Host, r *Replica, done result) error {
			return r.Truncate(t.Context(), r.Extent(), Truncation{}, done)
		},
	}
	for name, change := range writers {
		for _, mode := range []Durability{Synced, Periodic} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore(t)
					h := open(t, s, 1, Options{Durability: mode})
					defer closeHost(t, h)
					r := h.Replicas()[0]
					gate := make(chan struct{})
					s.syncing = func() error { <-gate; return nil }
					written := make(result, 1)
					if err := change(h, r, written); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // the sync of the write is in progress
					read := func(c *command.Read) chan error {
						done := make(chan error, 1)
						go func() { done <- r.Read(t.Context(), c, sink{}) }()
						synctest.Wait()
						return done
					}
					met := read(&command.Read{Table: testTable, Key: k, Token: token.Hash(k)})
					missed := read(&command.Read{Table: testTable, Key: []byte("x"), Token: token.Hash([]byte("x"))})
					if waits := len(met) == 0; waits != (mode == Synced) {
						t.Errorf("the reader of the key waits: %v", waits)
					}
					if waits := len(missed) == 0; waits && !strings.HasPrefix(name, "truncate") {
						t.Error("the reader of another key waits")
					}
					close(gate)
					synctest.Wait()
					if len(met) != 1 || len(missed) != 1 {
						t.Fatal("a reader still waits after the sync")
					}
					if err := <-met; err != nil {
						t.Error(err)
					}
					syncs := s.syncs.Load()
					if err := <-read(&command.Read{Table: testTable, Key: k, Token: token.Hash(k)}); err != nil ||
						s.syncs.Load() != syncs {
						t.Errorf("a read of what is durable: %v after %d more syncs", err, s.syncs.Load()-syncs)
					}
				})
			})
		}
	}
}

// TestReadWaitEnds checks that a reader that waits for a sync ends with its context, so that an unresponsive disk does
// not block it indefinitely.
func TestReadWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		h := open(t, s, 1, Options{Durability: Synced})
		defer closeHost(t, h)
		r := h.Replicas()[0]
		gate := make(chan struct{})
		s.syncing = func() error { <-gate; return nil }
		if err := r.Write(t.Context(), put("k", 1), make(result, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the write has been applied
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			k := []byte("k")
			done <- r.Read(ctx, &command.Read{Table: testTable, Key: k, Token: token.Hash(k)}, sink{})
		}()
		synctest.Wait()
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("got %v, want the context's error", err)
		}
		close(gate)
	})
}
