// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newestOf returns the LatestVersion function of a node. The function returns after a delay, when the node has applied
// all entries that the log contained at the time of the request.
func (f *follower) newestOf(asked *atomic.Int32) func(context.Context) (uint64, error) {
	return func(context.Context) (uint64, error) {
		asked.Add(1)
		f.c.mu.Lock()
		version := f.c.version
		f.c.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		if f.c.random(4) == 0 {
			return 0, errLost
		}
		for {
			f.mu.Lock()
			has := f.version >= version
			f.mu.Unlock()
			if has {
				return version, nil
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestRefresh checks that the result of ReadBarrier on any node contains every change for which an Update has returned
// on another node (MT6). This must hold if nodes apply the log at different speeds, requests are lost, and many readers
// wait at the same time. Readers that arrive while a request is in flight share the next request.
func TestRefresh(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes, askers, rounds = 3, 8, 20
				c := newCluster(t, nodes, seed)
				var asked atomic.Int32
				for _, f := range c.nodes {
					f.keeper.opts.Member = &testMember{c, f.newestOf(&asked)}
				}
				var acknowledged atomic.Uint64
				var wg sync.WaitGroup
				wg.Go(func() {
					for range rounds {
						s, err := c.nodes[0].keeper.Update(t.Context(), increment)
						if err != nil {
							t.Error(err)
							return
						}
						acknowledged.Store(s.Version)
					}
				})
				for i := range askers {
					k := c.nodes[1+i%(nodes-1)].keeper
					wg.Go(func() {
						for range rounds {
							time.Sleep(time.Duration(c.random(20)) * time.Millisecond)
							least := acknowledged.Load()
							s, err := k.ReadBarrier(t.Context())
							if err != nil || s.Version < least {
								t.Errorf("%v, %v, %d was acknowledged", s, err, least)
								return
							}
						}
					})
				}
				wg.Wait()
				// Without sharing, the readers would send one third more requests.
				if n := asked.Load(); n > askers*rounds {
					t.Errorf("%d questions for %d calls", n, askers*rounds)
				}
				c.close()
			})
		})
	}
}

// TestRefreshEnds checks that ReadBarrier waits for a response until its context ends, even if other readers are
// waiting already. Without a Member, the local state is the latest state.
func TestRefreshEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1)
		k := c.nodes[0].keeper
		k.opts.Member = nil
		if s, err := k.ReadBarrier(t.Context()); err != nil || s.Version != 1 {
			t.Errorf("%v, %v", s, err)
		}
		k.opts.Member = &testMember{c, func(context.Context) (uint64, error) { return 0, errLost }}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				if _, err := k.ReadBarrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("without an answer: %v", err)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
		wg.Wait()
		c.close()
		if _, err := k.ReadBarrier(t.Context()); err == nil {
			t.Error("a keeper that is closed answers")
		}
	})
}
