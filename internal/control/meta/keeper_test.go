// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a meta partition with a log, and the metadata records of several nodes that apply the log at different
// speeds.
type cluster struct {
	mu      sync.Mutex
	rng     *rand.Rand
	records map[string][]byte
	version uint64
	log     []command.Records
	nodes   []*follower
	trouble bool // changes are lost, late, or applied without a response
	lined   bool // keepers wait for their turn at the first node; if trouble is set, some requests get no response
	beaten  int  // changes that were based on an older version
	stopped chan struct{}
	wg      sync.WaitGroup
}

// follower holds the metadata records of one node.
type follower struct {
	c       *cluster
	mu      sync.Mutex
	records map[string][]byte
	version uint64
	keeper  *Keeper
}

var errLost = errors.New("lost")

func newCluster(t *testing.T, nodes int, seed uint64) *cluster {
	t.Helper()
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 1)), records: map[string][]byte{}, version: 1,
		stopped: make(chan struct{})}
	for i := range nodes {
		f := &follower{c: c, records: map[string][]byte{}, version: 1}
		var err error
		if f.keeper, err = New(f.scan, f.change, Options{Self: topology.NodeID{byte(i + 1)},
			Member: &testMember{c: c}}); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, f)
		c.wg.Go(f.follow)
	}
	return c
}

func (c *cluster) close() {
	close(c.stopped)
	c.wg.Wait()
	for _, f := range c.nodes {
		f.keeper.Close()
	}
}

func (c *cluster) random(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// testMember is a member of the cluster. latest is its LatestVersion function, or nil if the local records are the
// latest.
type testMember struct {
	c      *cluster
	latest func(context.Context) (uint64, error)
}

func (m *testMember) AcquireFromLeader(ctx context.Context) (uint64, error) {
	if !m.c.lined || m.c.trouble && m.c.random(4) == 0 {
		return 0, errLost
	}
	return m.c.nodes[0].keeper.Acquire(ctx)
}

func (m *testMember) LatestVersion(ctx context.Context) (uint64, error) {
	if m.latest == nil {
		return 0, nil
	}
	return m.latest(ctx)
}

// apply applies a compare-and-set operation of the log.
func (c *cluster) apply(r command.Records) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Expect != c.version {
		c.beaten++
		return 0, &partition.Conflict{Version: c.version}
	}
	put(c.records, r.Put)
	c.version++
	c.log = append(c.log, r)
	return c.version, nil
}

func put(records map[string][]byte, changes []command.Record) {
	for _, r := range changes {
		if r.Value == nil {
			delete(records, string(r.Key))
		} else {
			records[string(r.Key)] = r.Value
		}
	}
}

func (f *follower) scan(fn func(key, value []byte) error) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, value := range f.records {
		if err := fn([]byte(key), value); err != nil {
			return 0, err
		}
	}
	return f.version, nil
}

// change proposes a change. With trouble, the change is lost, or it is applied, possibly late, without a response.
func (f *follower) change(ctx context.Context, r command.Records) (uint64, error) {
	r.Put = slices.Clone(r.Put)
	if !f.c.trouble {
		return f.c.apply(r)
	}
	switch f.c.random(5) {
	case 0:
		return 0, errLost
	case 1:
		_, _ = f.c.apply(r)
		return 0, errLost
	case 2:
		late := time.Duration(f.c.random(300)) * time.Millisecond
		f.c.wg.Go(func() {
			time.Sleep(late)
			_, _ = f.c.apply(r)
		})
		return 0, errLost
	}
	return f.c.apply(r)
}

// follow applies the log a few entries at a time.
func (f *follower) follow() {
	for {
		select {
		case <-f.c.stopped:
			return
		case <-time.After(time.Duration(1+f.c.random(40)) * time.Millisecond):
		}
		f.catchUp(1 + f.c.random(4))
	}
}

func (f *follower) catchUp(most int) {
	f.c.mu.Lock()
	log := f.c.log[f.version-1:]
	f.c.mu.Unlock()
	f.mu.Lock()
	for _, r := range log[:min(most, len(log))] {
		put(f.records, r.Put)
		f.version++
		if f.version%3 > 0 { // sometimes the node must read all records
			f.keeper.NoteChange(f.version, r.Put)
		}
	}
	version := f.version
	f.mu.Unlock()
	f.keeper.Reload(version)
}

// increment increments a number in the settings.
func increment(s *State) (*State, error) {
	n, _ := strconv.Atoi(s.Settings["n"])
	return s.WithSetting("n", strconv.Itoa(n+1)), nil
}

// TestUpdatesHappenOnce checks that each Update is applied exactly once, even if changes of several nodes conflict, are
// lost, are late, or get no response. When Update returns, the subscribers of its node have seen the change.
func TestUpdatesHappenOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { updatesHappenOnce(t, seed) })
		})
	}
}

func updatesHappenOnce(t *testing.T, seed uint64) {
	const nodes, updaters, updates = 3, 2, 6
	c := newCluster(t, nodes, seed)
	c.trouble, c.lined = seed > 0, seed%2 == 1
	var wg sync.WaitGroup
	var mu sync.Mutex
	uncertain := 0
	for i, f := range c.nodes {
		var last uint64
		var seen *State
		first := f.keeper.Subscribe(func(old, next *State) {
			// Synthetic time exposes an Update that does not wait for subscribers.
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if old.Version < last || next.Version <= old.Version || seen != nil && seen != old {
				t.Errorf("node %d: version %d after %d, last %d", i, next.Version, old.Version, last)
			}
			last, seen = next.Version, next
		})
		if first.Version != 1 {
			t.Errorf("version %d at first", first.Version)
		}
		for range updaters {
			wg.Go(func() {
				for range updates {
					s, err := f.keeper.Update(t.Context(), increment)
					mu.Lock()
					if errors.Is(err, ErrUncertain) {
						uncertain++
					} else if err != nil {
						t.Error(err)
					} else if last < s.Version {
						t.Errorf("node %d: version %d returned, %d seen", i, s.Version, last)
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	time.Sleep(time.Second) // wait for late changes
	c.close()
	n, _ := strconv.Atoi(string(c.records[settingPrefix+"n"]))
	if all := nodes * updaters * updates; n > all || n < all-uncertain {
		t.Fatalf("%d of %d updates happened, %d are uncertain", n, all, uncertain)
	}
	if uncertain > 3 {
		t.Errorf("%d updates are uncertain", uncertain)
	}
	for i, f := range c.nodes {
		f.catchUp(len(c.log))
		want, err := Load(f.scan)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(want.records, c.records, slices.Equal) {
			t.Errorf("node %d has other records than the cluster", i)
		}
	}
}

// TestTurns checks that a node that is closer to the log does not overtake a waiting node. Changes must be made in the
// order of the requests. A node that does not use its turn must delay other nodes only briefly.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, updates = 4, 10
		c := newCluster(t, nodes, 1)
		c.lined = true
		if _, err := c.nodes[0].keeper.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := c.nodes[1].keeper.Update(t.Context(), increment); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < grantTimeout || took > 2*grantTimeout {
			t.Errorf("waited %s for one who does nothing", took)
		}
		var wg sync.WaitGroup
		var order []int
		for i, f := range c.nodes {
			wg.Go(func() {
				for range updates {
					if _, err := f.keeper.Update(t.Context(), increment); err != nil {
						t.Error(err)
					}
					c.mu.Lock()
					order = append(order, i)
					c.mu.Unlock()
				}
			})
		}
		wg.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.nodes[0].keeper.Acquire(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		c.close()
		if _, err := c.nodes[0].keeper.Acquire(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("a keeper that is closed: %v", err)
		}
		if c.beaten > 0 {
			t.Errorf("%d of %d changes were based on an older version", c.beaten, len(c.log))
		}
		for i := range c.nodes {
			if n := slices.Index(order, i); n > 2*nodes {
				t.Errorf("node %d came as number %d: %v", i, n, order)
			}
		}
	})
}

// TestUpdateEnds checks that an update that changes nothing proposes nothing, and that its error is returned
// unchanged. If the context ends while the outcome is unknown, the error must report the unknown outcome.
func TestUpdateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1)
		defer c.close()
		k := c.nodes[0].keeper
		mine := errors.New("mine")
		if _, err := k.Update(t.Context(), func(*State) (*State, error) { return nil, mine }); err != mine {
			t.Errorf("%v", err)
		}
		if s, err := k.Update(t.Context(), func(s *State) (*State, error) {
			return s.WithSetting("n", ""), nil
		}); err != nil || s.Version != 1 {
			t.Errorf("%v, %v", s, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		k.change = func(context.Context, command.Records) (uint64, error) { return 0, errLost }
		if _, err := k.Update(ctx, increment); !errors.Is(err, ErrUncertain) || !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
		// The records never arrive.
		k.change = func(context.Context, command.Records) (uint64, error) { return 7, nil }
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Update(ctx, increment); !errors.Is(err, ErrNotVisible) || !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		k.change = func(context.Context, command.Records) (uint64, error) { return 0, partition.ErrStopped }
		began := time.Now()
		if _, err := k.Update(t.Context(), increment); !errors.Is(err, ErrUncertain) ||
			time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestLoadFails checks that a failed load is retried, and that the state does not change until a load succeeds.
func TestLoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var broken error
		failures, version := 0, uint64(1)
		scan := func(func(key, value []byte) error) (uint64, error) {
			mu.Lock()
			defer mu.Unlock()
			return version, broken
		}
		k, err := New(scan, nil, Options{LoadFailed: func(error) {
			mu.Lock()
			defer mu.Unlock()
			failures++
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		mu.Lock()
		broken, version = errLost, 2
		mu.Unlock()
		k.Reload(2)
		time.Sleep(time.Second)
		mu.Lock()
		if failures < 2 || k.State().Version != 1 {
			t.Errorf("%d failures, version %d", failures, k.State().Version)
		}
		broken = nil
		mu.Unlock()
		if s, err := k.Wait(t.Context(), 2); err != nil || s.Version != 2 {
			t.Errorf("%v, %v", s, err)
		}
	})
}
