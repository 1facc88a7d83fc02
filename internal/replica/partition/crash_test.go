// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// openStored opens a host on a real store.
func openStored(t *testing.T, fs vfs.FS, o Options) (*Host, *storage.Store) {
	t.Helper()
	s, err := storage.Open(fs, "data", storage.Options{MemtableBytes: 4 << 20, CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.InstallTable(storage.Table{ID: testTable})
	return open(t, Stored{s}, 4, o), s
}

// TestPowerFailure checks, on the real store, that acknowledged writes and writes returned by reads in Synced mode
// survive a power failure at any time. Additions to counters must be neither lost nor counted twice, and a batch must
// be applied completely or not at all.
func TestPowerFailure(t *testing.T) {
	const seed = 7
	fs := vfs.NewCrashableMem()
	o := Options{Durability: Synced}
	h, s := openStored(t, fs, o)
	m := testMap(t, 4)
	at := func(h *Host, key string) *Replica {
		c := put(key, 0)
		return h.Replica(m.Locate(testTable, c.Token, c.Key).ID)
	}
	var batch []string // the keys belong to one physical partition
	for i := 0; len(batch) < 8; i++ {
		if key := fmt.Sprint("batch", i); len(batch) == 0 || at(h, key) == at(h, batch[0]) {
			batch = append(batch, key)
		}
	}
	var counted, begun, batches atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				begun.Add(1)
				if _, err := decide(t.Context(), at(h, "counter"), add("counter", 1)); err != nil {
					t.Error(err)
					return
				}
				counted.Add(1)
			}
		})
	}
	wg.Go(func() {
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			var parts []Part
			for _, key := range batch {
				parts = append(parts, Part{Mutation: put(key, n)})
			}
			done := make(result, 1)
			if err := at(h, batch[0]).WriteAll(t.Context(), parts, done); err != nil {
				t.Error(err)
				return
			}
			if err := <-done; err != nil {
				t.Error(err)
				return
			}
			batches.Store(n)
		}
	})
	var seen atomic.Int64 // highest value that a reader has seen
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				v, _ := read(t, at(h, "counter"), "counter")
				seen.Store(v)
			}
		}
	})
	rng := rand.New(rand.NewPCG(seed, seed))
	for crash := range 5 {
		for counted.Load() < int64(crash+1)*40 && !t.Failed() {
			if _, err := decide(t.Context(), at(h, "pace"), add("pace", 1)); err != nil {
				t.Fatal(err)
			}
		}
		leastCount, leastBatch := max(counted.Load(), seen.Load()), batches.Load()
		after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		mostCount := begun.Load()
		h2, s2 := openStored(t, after, o)
		if v, _ := read(t, at(h2, "counter"), "counter"); v < leastCount || v > mostCount {
			t.Errorf("crash %d: the counter is %d; %d were acknowledged or read, %d begun", crash, v, leastCount,
				mostCount)
		}
		first, stamp := read(t, at(h2, batch[0]), batch[0])
		for _, key := range batch {
			if v, ts := read(t, at(h2, key), key); v != first || ts != stamp || v < leastBatch {
				t.Errorf("crash %d: %s is %d at %d, the first is %d at %d, %d was acknowledged", crash, key, v, ts,
					first, stamp, leastBatch)
			}
		}
		if err := write(t.Context(), at(h2, "counter"), put("counter", -1)); err != nil {
			t.Error(err)
		}
		if v, _ := read(t, at(h2, "counter"), "counter"); v != -1 {
			t.Errorf("crash %d: a write after the restart lost against one before it", crash)
		}
		closeHost(t, h2)
		if err := s2.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	closeHost(t, h)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestStored checks that metas, dedupe records, and sweeps have the same effect in the real store and the fake store.
func TestStored(t *testing.T) {
	fs := vfs.NewMem()
	h, s := openStored(t, fs, Options{})
	m := testMap(t, 4)
	c := add("k", 5)
	c.Mutation.Dedupe.Sequence = 3
	r := h.Replica(m.Locate(testTable, c.Mutation.Token, c.Mutation.Key).ID)
	for range 2 {
		if d, err := decide(t.Context(), r, c); err != nil || !d.Applied {
			t.Fatal(d, err)
		}
	}
	if v, _ := read(t, r, "k"); v != 5 {
		t.Fatalf("counter is %d, want 5", v)
	}
	g, err := s.FindGarbage(t.Context(), r.state.Load().keys, nil, 1<<40, 3600, 100)
	if err != nil {
		t.Fatal(err)
	}
	g.AddParts(func([16]byte) bool { return false })
	if len(g.Sweeps) == 0 {
		t.Fatal("an old dedupe record is not found as garbage")
	}
	for i := range g.Sweeps {
		if err := h.Sweep(t.Context(), &g.Sweeps[i], i%2 == 1); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := s.Dedupe(testTable, c.Mutation.Token, c.Mutation.Key, c.Mutation.Dedupe); b != nil || err != nil {
		t.Fatalf("the dedupe record still exists: %x, %v", b, err)
	}
	if len(h.Spans()) != 4 || h.Spans()[0].Table != testTable {
		t.Errorf("spans: %v", h.Spans())
	}
	if err := h.Drop(r.ID()); err != nil {
		t.Fatal(err)
	}
	closeHost(t, h)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = storage.Open(fs, "data", storage.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h, err = Open(Stored{s}, Options{}); err != nil {
		t.Fatal(err)
	}
	defer closeHost(t, h)
	if len(h.Replicas()) != 3 || h.Replica(r.ID()) != nil {
		t.Errorf("%d replicas after dropping one of four", len(h.Replicas()))
	}
	if b, err := s.Get(keys.PartitionID, nil); b != nil || err != nil {
		t.Errorf("a meta without an id: %x, %v", b, err)
	}
}
