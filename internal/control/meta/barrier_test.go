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

// newestOf is what the newest version of a cluster is asked for: the answer comes after a while, when the node has
// applied what was in the log at its beginning.
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

// TestRefresh proves (MT6): whatever one node's Update has returned is in what Refresh returns afterwards on any other,
// though the nodes follow at their own pace, questions get lost, and many ask at once; and those that come while a
// question is open share the next one.
func TestRefresh(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes, askers, rounds = 3, 8, 20
				c := newCluster(t, nodes, seed)
				var asked atomic.Int32
				for _, f := range c.nodes {
					f.keeper.opts.LatestVersion = f.newestOf(&asked)
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
				if n := asked.Load(); n > askers*rounds { // a third more without sharing, for those that are lost
					t.Errorf("%d questions for %d calls", n, askers*rounds)
				}
				c.close()
			})
		})
	}
}

// TestRefreshEnds checks that Refresh waits for an answer until its context ends, also where others wait before it; and
// that without a question the state here is the newest.
func TestRefreshEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1)
		k := c.nodes[0].keeper
		if s, err := k.ReadBarrier(t.Context()); err != nil || s.Version != 1 {
			t.Errorf("%v, %v", s, err)
		}
		k.opts.LatestVersion = func(context.Context) (uint64, error) { return 0, errLost }
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
