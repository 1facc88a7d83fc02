// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// disks clones a disk before each of its operations. The clone has the state that a crash at that time would leave.
type disks struct {
	fs    *vfs.MemFS
	rng   *rand.Rand
	every int
	mu    sync.Mutex
	on    bool
	ops   int
	list  []*vfs.MemFS
}

// clone stores the state that the disk could have if a crash occurred now.
func (d *disks) clone() {
	d.list = append(d.list, d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: d.rng.IntN(3) * 50, RNG: d.rng}))
}

func (d *disks) before(op errorfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		if d.ops++; d.ops%d.every == 0 {
			d.clone()
		}
	}
	return nil
}

func (d *disks) record(on bool) {
	d.mu.Lock()
	d.on = on
	d.mu.Unlock()
}

// TestCrashDuringInstall clones the disk before each write, link, and sync of an installation, and once after the
// installation. The test drops arbitrary parts of the unsynced data. Every clone must open with the old or the new
// state of the partition, including both meta and rows. A clone made after the installation must open with the new
// state. Data that was previously applied to another partition must be intact.
func TestCrashDuringInstall(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	seen := map[string]int{}
	for round := range 24 {
		if raced && round%4 > 0 {
			continue
		}
		crashInstall(t, rng, round, seen)
	}
	if seen["old"] < 20 || seen["new"] < 20 {
		t.Errorf("saw %v", seen)
	}
}

func crashInstall(t *testing.T, rng *rand.Rand, round int, seen map[string]int) {
	a := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	createPartition(t, a, 2, quarters[2])
	write(t, a, 2, 50, 2)
	if round%8 >= 4 {
		// Without index entries, the table may be ingested before the log is synced.
		a.InstallTable(Table{ID: testTable, Clustering: 1})
	}
	good := snapshotBytes(t, a, 2)
	want := hashOf(t, a, quarters[2])

	own := []keys.Span{quarters[2], joined(quarters[2], quarters[3]), quarters[3]}[round%3] // the last span is adjacent
	if round%6 == 5 {
		own = quarters[4]
	}
	d := &disks{fs: vfs.NewCrashableMem(), rng: rng, every: 1}
	b := openParts(t, errorfs.Wrap(d.fs, errorfs.InjectorFunc(d.before)), Options{})
	defer closeStore(t, b)
	createPartition(t, b, 2, own)
	write(t, b, 2, 30, 1)
	createPartition(t, b, 1, quarters[1])
	write(t, b, 1, 20, 1)
	place(t, b, round%3)
	write(t, b, 1, 20, 2) // this write is only in the log
	if round%2 == 0 {
		write(t, b, 2, 5, 1)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	old, synced := hashOf(t, b, own), hashOf(t, b, quarters[1])
	write(t, b, 1, 1, 3) // a durable installation must also make this write durable
	unsynced := hashOf(t, b, quarters[1])
	d.record(true)
	if err := b.InstallSnapshot(context.Background(), own, bytes.NewReader(good), nil); err != nil {
		t.Fatal(err)
	}
	d.record(false)
	d.clone()
	for i, fs := range d.list {
		c := openParts(t, fs, Options{})
		m, ok, err := c.Meta(2)
		if err != nil || !ok {
			t.Fatalf("round %d, disk %d of %d: %v %v", round, i, len(d.list), ok, err)
		}
		other, rows := hashOf(t, c, quarters[1]), hashOf(t, c, quarters[2])
		rest := hashOf(t, c, keys.Span{Table: testTable, Begin: quarters[3].Begin})
		switch {
		case other != unsynced && (other != synced || m.Applied == keys.InitialApplied+50):
			t.Errorf("round %d, disk %d of %d: the other partition has changed", round, i, len(d.list))
		case m.Applied == keys.InitialApplied+50 && rows == want && rest == 0:
			seen["new"]++
		case m.Applied < keys.InitialApplied+50 && i < len(d.list)-1 && hashOf(t, c, own) == old &&
			m.Span.String() == own.String():
			seen["old"]++
		default:
			t.Errorf("round %d, disk %d of %d: half a state, meta %+v", round, i, len(d.list), m)
		}
		if len(leftFiles(t, c)) > 0 {
			t.Errorf("files remain: %v", leftFiles(t, c))
		}
		closeStore(t, c)
	}
}

// TestFailingInstall checks that a disk error at any point leaves either the old or the new state.
func TestFailingInstall(t *testing.T) {
	a := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	createPartition(t, a, 2, quarters[2])
	write(t, a, 2, 50, 2)
	good := snapshotBytes(t, a, 2)
	injected := errors.New("injected")
	for n := range 40 {
		var left atomic.Int64
		left.Store(1 << 40)
		inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && isSnapshotFile(op.Path) && left.Add(-1) == 0 {
				return injected
			}
			return nil
		})
		b := openParts(t, errorfs.Wrap(vfs.NewMem(), inject), Options{})
		createPartition(t, b, 2, quarters[2])
		write(t, b, 2, 30, 1)
		old := hashOf(t, b, quarters[2])
		left.Store(int64(n + 1))
		err := b.InstallSnapshot(context.Background(), quarters[2], bytes.NewReader(good), nil)
		left.Store(1 << 40)
		m, _, merr := b.Meta(2)
		h := hashOf(t, b, quarters[2])
		isOld, isNew := h == old && m.Applied == keys.InitialApplied+30, h == hashOf(t, a, quarters[2]) &&
			m.Applied == keys.InitialApplied+50
		if merr != nil || !isOld && !isNew || isOld != (err != nil) && !isNew {
			t.Errorf("failure %d: %v, old %v, new %v", n, err, isOld, isNew)
		}
		if n == 0 && !errors.Is(err, injected) {
			t.Errorf("nothing failed: %v", err)
		}
		closeStore(t, b)
	}
}

func isSnapshotFile(path string) bool {
	return bytes.Contains([]byte(path), []byte("/"+snapshotDir+"/"))
}

// TestSnapshotIsOneState checks snapshots of a partition that are taken during concurrent writes to it and while
// snapshots of its neighbor are installed. The number of rows in every snapshot must equal the count in its meta.
func TestSnapshotIsOneState(t *testing.T) {
	const rounds = 15
	s := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, s)
	createPartition(t, s, 2, quarters[2])
	createPartition(t, s, 3, quarters[3])
	write(t, s, 3, 20, 1)
	neighbour := snapshotBytes(t, s, 3)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		m, _, _ := s.Meta(2)
		for i := range 20_000 {
			select {
			case <-stop:
				return
			default:
				writeRow(t, s, &m, i)
			}
		}
	})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			if err = s.InstallSnapshot(context.Background(), quarters[3], bytes.NewReader(neighbour),
				nil); err == nil && i%3 == 0 {
				err = s.Flush()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := uint64(0)
	for range rounds {
		p, err := s.CaptureSnapshot(context.Background(), 2)
		if err != nil {
			t.Fatal(err)
		}
		c := openParts(t, vfs.NewMem(), Options{})
		if err := c.InstallSnapshot(context.Background(), keys.Span{}, stream(p), nil); err != nil {
			t.Fatal(err)
		}
		var v silent
		if err := readSpan(c, &v); err != nil {
			t.Fatal(err)
		}
		if at := p.Meta().Applied; uint64(v.rows) != at-keys.InitialApplied || at < last {
			t.Errorf("%d rows at %d, before that %d", v.rows, at, last)
		} else {
			last = at
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		closeStore(t, c)
	}
	close(stop)
	wg.Wait()
	if last == keys.InitialApplied {
		t.Error("no write succeeded in the meantime")
	}
}

// writeRow adds a row and increments the count in the meta.
func writeRow(t *testing.T, s *Store, m *keys.Meta, i int) {
	b := s.NewBatch()
	defer b.Close()
	mu := insert(keyIn(m.Span, i%50), fmt.Sprintf("ck%06d", i), int64(i+1))
	m.Applied++
	b.PutMeta(m)
	if err := errors.Join(b.Mutate(&mu), b.Commit()); err != nil {
		t.Error(err)
	}
}

// TestInstalledRowsAreSeen checks that runs of dead rows hide no rows of an installed snapshot. The runs may be in
// memory or stored, or may be found during the installation.
func TestInstalledRowsAreSeen(t *testing.T) {
	const rows = 200
	span := keys.Span{Table: testTable}
	a := openParts(t, vfs.NewMem(), Options{})
	defer closeStore(t, a)
	createPartition(t, a, 1, span)
	fill(t, a, 0, rows)
	fs := vfs.NewMem()
	b := openParts(t, fs, Options{})
	eager(b)
	createPartition(t, b, 1, span)
	for i := range rows {
		apply(t, b, remove("queue", queueKey(i), 1, 1))
	}
	followHints(t, b)
	if got := readOne(t, b, "queue"); len(got) != 0 || b.Metrics().TombstoneSkips == 0 {
		t.Fatalf("%d rows, %d skips", len(got), b.Metrics().TombstoneSkips)
	}
	change := func(*keys.Meta) error {
		readOne(t, b, "queue") // the last opportunity to find a run
		return nil
	}
	if err := b.InstallSnapshot(context.Background(), span, bytes.NewReader(snapshotBytes(t, a, 1)),
		change); err != nil {
		t.Fatal(err)
	}
	if got := readOne(t, b, "queue"); len(got) != rows+1 {
		t.Errorf("%d lines", len(got))
	}
	closeStore(t, b)
	b = openParts(t, fs, Options{})
	defer closeStore(t, b)
	if got := readOne(t, b, "queue"); len(got) != rows+1 {
		t.Errorf("%d lines after reopening", len(got))
	}
}

// TestHold checks that a search for tombstone runs in a partition has no result if the partition is held during the
// search. No search may begin before the release. Searches in other partitions must continue.
func TestHold(t *testing.T) {
	var d tombstoneCache
	d.init(1 << 20)
	run := tombstoneRun{start: []byte{}, rows: 5}
	learn := func(prefix string, meanwhile func()) int {
		if d.begin(&pendingRun{prefix: []byte(prefix), lo: []byte{}}) {
			meanwhile()
			d.install(run)
		}
		return len(d.runs[prefix])
	}
	nothing := func() {}
	if n := learn("b1", nothing); n != 1 {
		t.Fatal("nothing was learned")
	}
	if n := learn("b2", func() { d.hold([]byte("b"), []byte("c")) }); n != 0 || len(d.runs) > 0 || d.bytes != 0 {
		t.Errorf("%d runs of the lesson, %d in all", n, len(d.runs))
	}
	if n, others := learn("b1", nothing), learn("c", nothing)+learn("a", nothing); n != 0 || others != 2 {
		t.Errorf("%d runs of what is held, %d of others", n, others)
	}
	d.release([]byte("b"))
	if n := learn("b1", nothing); n != 1 || len(d.held) > 0 {
		t.Error("the reservation still exists")
	}
}

// readSpan reads all rows of the test table.
func readSpan(s *Store, v command.Visitor) error {
	return s.Read(context.Background(), &command.Read{Table: testTable, Now: 1}, v)
}
