// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/feature"
)

func open(t testing.TB, fs vfs.FS, o Options) *Store {
	t.Helper()
	o.FS = fs
	if o.MemtableBytes == 0 {
		o.MemtableBytes = 1 << 20
	}
	s, err := Open("data/log", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newEntry(index, term uint64, data string) *pb.Entry {
	kind := pb.EntryNormal
	return &pb.Entry{Index: &index, Term: &term, Type: &kind, Data: []byte(data)}
}

func group(t testing.TB, s *Store, id uint64) *Group {
	t.Helper()
	g, err := s.Group(id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// show returns all data that a raft.Storage provides, as text.
func show(t testing.TB, s raft.Storage) string {
	t.Helper()
	hs, cs, err := s.InitialState()
	must(t, err)
	first, err := s.FirstIndex()
	must(t, err)
	last, err := s.LastIndex()
	must(t, err)
	cut, err := s.Term(first - 1)
	must(t, err)
	out := fmt.Sprintf("term %d vote %d commit %d voters %v cut %d@%d last %d:", hs.GetTerm(), hs.GetVote(),
		hs.GetCommit(), cs.GetVoters(), first-1, cut, last)
	if first > last {
		return out
	}
	entries, err := s.Entries(first, last+1, 1<<30)
	must(t, err)
	for _, e := range entries {
		term, err := s.Term(e.GetIndex())
		must(t, err)
		if term != e.GetTerm() {
			t.Fatalf("Term(%d) is %d, the entry's is %d", e.GetIndex(), term, e.GetTerm())
		}
		out += fmt.Sprintf(" %d@%d=%s", e.GetIndex(), e.GetTerm(), e.GetData())
	}
	return out
}

var four = &pb.ConfState{Voters: []uint64{1, 2, 3, 4}}

// TestCrashKeepsWhatWasSynced clones the disk without any unsynced data. The test checks that the state after a crash
// is exactly the state at the last synced commit (RL1, RL2).
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs, Options{})
	b := s.NewBatch()
	if ok, err := b.Create(7, 10, 5, four); err != nil || !ok {
		t.Fatal(ok, err)
	}
	must(t, b.Append(7, []*pb.Entry{newEntry(11, 6, "a"), newEntry(12, 6, "b")}))
	must(t, b.SetHardState(9, 3, 2, 0))
	must(t, b.Commit(true))
	want7, want9 := show(t, group(t, s, 7)), show(t, group(t, s, 9))

	must(t, b.Append(7, []*pb.Entry{newEntry(12, 7, "c"), newEntry(13, 7, "d")}))
	must(t, b.SetHardState(9, 4, 4, 0))
	must(t, b.Commit(false))
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})

	after := open(t, crashed, Options{})
	defer func() { must(t, after.Close()) }()
	if got := show(t, group(t, after, 7)); got != want7 {
		t.Errorf("group 7 after the crash:\n%s\nwant\n%s", got, want7)
	}
	if got := show(t, group(t, after, 9)); got != want9 {
		t.Errorf("group 9 after the crash:\n%s\nwant\n%s", got, want9)
	}
	must(t, b.Commit(true)) // a sync alone makes the earlier commit durable
	later := open(t, fs.CrashClone(vfs.CrashCloneCfg{}), Options{})
	defer func() { must(t, later.Close()) }()
	if got, want := show(t, group(t, later, 7)), show(t, group(t, s, 7)); got != want {
		t.Errorf("after a sync:\n%s\nwant\n%s", got, want)
	}
	if got, want := show(t, group(t, s, 7)),
		"term 5 vote 0 commit 10 voters [1 2 3 4] cut 10@5 last 13: 11@6=a 12@7=c 13@7=d"; got != want {
		t.Errorf("group 7:\n%s\nwant\n%s", got, want)
	}
	must(t, b.Close())
	must(t, s.Close())
}

// TestDirectorySurvivesCrash checks that a new directory and its format survive a crash immediately after Open.
func TestDirectorySurvivesCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, fs, Options{})
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	if _, err := clone.Stat("data/log"); err != nil {
		t.Fatal(err)
	}
	must(t, open(t, clone, Options{}).Close())
	must(t, s.Close())
}

// TestOverwrittenTailIsGone checks a shorter overwrite of the end of a log (RL3). Neither memory nor a reopened store
// may contain the old end, whether it is deleted by keys or as a range.
func TestOverwrittenTailIsGone(t *testing.T) {
	for _, n := range []int{5, 3 * pointDeletes} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, fs, Options{})
			b := s.NewBatch()
			var old []*pb.Entry
			for i := 1; i <= n; i++ {
				old = append(old, newEntry(uint64(i), 1, "old"))
			}
			must(t, b.Append(1, old))
			must(t, b.Append(1, []*pb.Entry{newEntry(2, 2, "new")}))
			must(t, b.Commit(true))
			want := "term 0 vote 0 commit 0 voters [] cut 0@0 last 2: 1@1=old 2@2=new"
			if got := show(t, group(t, s, 1)); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			must(t, s.Close())
			s = open(t, fs, Options{})
			defer func() { must(t, s.Close()) }()
			if got := show(t, group(t, s, 1)); got != want {
				t.Fatalf("reopened: %s, want %s", got, want)
			}
		})
	}
}

// TestCreateNeverOverwrites checks that Create never overwrites a record, even if a group has only voted (RL4). After
// Destroy, Create must succeed.
func TestCreateNeverOverwrites(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{})
	defer func() { must(t, s.Close()) }()
	b := s.NewBatch()
	created := func() bool {
		ok, err := b.Create(3, 10, 5, four)
		must(t, err)
		must(t, b.Commit(true))
		return ok
	}
	must(t, b.SetHardState(3, 8, 2, 0))
	must(t, b.Commit(true))
	before := show(t, group(t, s, 3))
	if created() {
		t.Error("Create overwrote a vote")
	}
	if got := show(t, group(t, s, 3)); got != before {
		t.Errorf("%s, was %s", got, before)
	}
	must(t, b.Destroy(3))
	must(t, b.Commit(true))
	if !created() {
		t.Error("Create failed after Destroy")
	}
	if created() {
		t.Error("a second creation succeeded")
	}
	if ids, err := s.Groups(); err != nil || !cmp.Equal(ids, []uint64{3}) {
		t.Errorf("groups %v, %v", ids, err)
	}
}

// TestRefusals checks that a batch that leaves a gap, or that truncates entries after the end, returns an error.
func TestRefusals(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{})
	defer func() { must(t, s.Close()) }()
	b := s.NewBatch()
	if err := b.Append(1, []*pb.Entry{newEntry(2, 1, "")}); err == nil {
		t.Error("an append with a gap before it")
	}
	if err := b.Append(1, []*pb.Entry{newEntry(1, 1, ""), newEntry(3, 1, "")}); err == nil {
		t.Error("an append with a gap in it")
	}
	if err := b.Truncate(1, 1, 1); err == nil {
		t.Error("a truncation beyond the log")
	}
	if _, err := s.Group(0); err == nil {
		t.Error("group 0")
	}
	must(t, b.Append(1, []*pb.Entry{newEntry(1, 1, ""), newEntry(2, 1, "")}))
	must(t, b.Truncate(1, 2, 1))
	must(t, b.Commit(false))
	g := group(t, s, 1)
	if _, err := g.Entries(2, 3, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("truncated entry: %v", err)
	}
	if _, err := g.Term(1); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("truncated term: %v", err)
	}
	if _, err := g.Entries(3, 4, 1); !errors.Is(err, raft.ErrUnavailable) {
		t.Errorf("future entry: %v", err)
	}
}

// TestTruncationBehindReset checks that a truncation that was requested before a reset, and that follows it in the same
// batch, does not restore the log.
func TestTruncationBehindReset(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{})
	defer func() { must(t, s.Close()) }()
	b := s.NewBatch()
	must(t, b.Append(1, []*pb.Entry{newEntry(1, 1, ""), newEntry(2, 1, "")}))
	must(t, b.Commit(true))
	must(t, b.Reset(1, 20, 3, four))
	must(t, b.Truncate(1, 2, 1))
	must(t, b.Commit(true))
	if got, want := show(t, group(t, s, 1)), "term 0 vote 0 commit 0 voters [1 2 3 4] cut 20@3 last 20:"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

// TestForeignDirectory checks that a directory with other content is rejected.
func TestForeignDirectory(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("data/log", &pebble.Options{FS: fs, Logger: logger{}})
	must(t, err)
	must(t, db.Set([]byte("x"), nil, nil))
	must(t, db.Close())
	if _, err := Open("data/log", Options{FS: fs}); !errors.Is(err, ErrFormat) {
		t.Fatalf("%v", err)
	}
}

// TestNewerDirectory checks that the directory of a later build is rejected as newer and remains unchanged. The error
// must contain both versions.
func TestNewerDirectory(t *testing.T) {
	fs := vfs.NewMem()
	must(t, open(t, fs, Options{}).Close())
	db, err := pebble.Open("data/log", &pebble.Options{FS: fs, Logger: logger{}})
	must(t, err)
	must(t, db.Set(formatKey, []byte("ilion raft log 2"), pebble.Sync))
	must(t, db.Close())
	for range 2 {
		_, err = Open("data/log", Options{FS: fs})
		const want = "the raft log was written by a newer version of Ilion (format 2); this version supports 1"
		if !errors.Is(err, feature.ErrNewer) || errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v", err)
		}
	}
}

// TestCacheBounds checks both limits of the entry cache, and that entries outside the cache are read from the store.
func TestCacheBounds(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{GroupCacheBytes: 10_000, NodeCacheBytes: 25_000})
	defer func() { must(t, s.Close()) }()
	b := s.NewBatch()
	data := string(make([]byte, 1000))
	for i := uint64(1); i <= 40; i++ {
		for g := uint64(1); g <= 5; g++ {
			must(t, b.Append(g, []*pb.Entry{newEntry(i, 1, data)}))
		}
		must(t, b.Commit(false))
		var sum int64
		for g := uint64(1); g <= 5; g++ {
			gr := group(t, s, g)
			sum += gr.cacheBytes
			if gr.cacheBytes > 10_000 {
				t.Fatalf("group %d holds %d bytes", g, gr.cacheBytes)
			}
		}
		if got := s.Metrics().CachedBytes; got != sum || got > 25_000 {
			t.Fatalf("the node counts %d bytes, groups hold %d", got, sum)
		}
	}
	for g := uint64(1); g <= 5; g++ {
		all, err := group(t, s, g).Entries(1, 41, 1<<30)
		if err != nil || len(all) != 40 {
			t.Fatalf("group %d: %d entries, %v", g, len(all), err)
		}
		some, err := group(t, s, g).Entries(1, 41, 2500)
		if err != nil || len(some) != 2 {
			t.Fatalf("group %d: %d entries in 2500 bytes, %v", g, len(some), err)
		}
		one, err := group(t, s, g).Entries(39, 41, 1)
		if err != nil || len(one) != 1 {
			t.Fatalf("group %d: %d entries in 1 byte, %v", g, len(one), err)
		}
	}
}

// TestAgainstMemoryStorage creates random histories of two groups, with tiny caches and reopened stores. The test
// checks that a Group returns the same results as the Raft library's MemoryStorage.
func TestAgainstMemoryStorage(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		fs := vfs.NewMem()
		s := open(t, fs, Options{GroupCacheBytes: 700, NodeCacheBytes: 1000})
		b := s.NewBatch()
		model := map[uint64]*raft.MemoryStorage{}
		term := uint64(5)
		for id := uint64(1); id <= 2; id++ {
			model[id] = raft.NewMemoryStorage()
			index := uint64(10)
			must(t, model[id].ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term,
				ConfState: four}}))
			commit, vote, t0 := index, uint64(0), term
			must(t, model[id].SetHardState(&pb.HardState{Term: &t0, Vote: &vote, Commit: &commit}))
			if _, err := b.Create(id, index, term, four); err != nil {
				t.Fatal(err)
			}
		}
		id := func(r *rapid.T) uint64 { return rapid.Uint64Range(1, 2).Draw(r, "group") }
		r.Repeat(map[string]func(*rapid.T){
			"append": func(r *rapid.T) {
				g := id(r)
				first, _ := model[g].FirstIndex()
				last, _ := model[g].LastIndex()
				from := rapid.Uint64Range(first, last+1).Draw(r, "from")
				if from <= last {
					term++
				}
				var es []*pb.Entry
				for i := uint64(0); i < rapid.Uint64Range(1, 5).Draw(r, "n"); i++ {
					es = append(es, newEntry(from+i, term, fmt.Sprintf("%d", rapid.IntRange(0, 999).Draw(r, "v"))))
				}
				must(t, model[g].Append(es))
				must(t, b.Append(g, es))
			},
			"hard state": func(r *rapid.T) {
				g := id(r)
				vote, commit, tt := rapid.Uint64Range(0, 4).Draw(r, "vote"), uint64(10), term
				must(t, model[g].SetHardState(&pb.HardState{Term: &tt, Vote: &vote, Commit: &commit}))
				must(t, b.SetHardState(g, term, vote, commit))
			},
			"truncate": func(r *rapid.T) {
				g := id(r)
				must(t, b.Commit(false))
				first, _ := model[g].FirstIndex()
				last, _ := model[g].LastIndex()
				to := rapid.Uint64Range(first-1, last).Draw(r, "to")
				if to < first {
					return
				}
				at, err := model[g].Term(to)
				must(t, err)
				must(t, model[g].Compact(to))
				must(t, b.Truncate(g, to, at))
			},
			"reset": func(r *rapid.T) {
				g := id(r)
				last, _ := model[g].LastIndex()
				term++
				index, tt := last+rapid.Uint64Range(1, 9).Draw(r, "ahead"), term
				cs := &pb.ConfState{Voters: []uint64{1, rapid.Uint64Range(2, 9).Draw(r, "voter")}}
				must(t, model[g].ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &tt,
					ConfState: cs}}))
				must(t, b.Reset(g, index, term, cs))
			},
			"reopen": func(r *rapid.T) {
				must(t, b.Commit(true))
				must(t, b.Close())
				must(t, s.Close())
				s = open(t, fs, Options{GroupCacheBytes: 700, NodeCacheBytes: 1000})
				b = s.NewBatch()
			},
			"": func(r *rapid.T) {
				must(t, b.Commit(rapid.Bool().Draw(r, "sync")))
				for g := uint64(1); g <= 2; g++ {
					if got, want := show(t, group(t, s, g)), show(t, model[g]); got != want {
						t.Fatalf("group %d:\n%s\nthe model says\n%s", g, got, want)
					}
				}
			},
		})
		must(t, b.Close())
		must(t, s.Close())
	})
}

// BenchmarkAppend measures one synced commit for many groups, including the sync of the disk and the memory of the
// store.
func BenchmarkAppend(b *testing.B) {
	for _, groups := range []uint64{1, 256} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{})
			must(b, err)
			batch := s.NewBatch()
			data := string(make([]byte, 144))
			b.ReportAllocs()
			for i := uint64(1); b.Loop(); i++ {
				for g := uint64(1); g <= groups; g++ {
					must(b, batch.Append(g, []*pb.Entry{newEntry(i, 1, data)}))
				}
				must(b, batch.Commit(true))
			}
			b.ReportMetric(float64(groups), "appends/op")
			must(b, batch.Close())
			must(b, s.Close())
		})
	}
}

// TestConfStateBytes pins the bytes of a stored configuration. The test also checks that neither a prefix of these
// bytes nor a longer input is accepted as a configuration.
func TestConfStateBytes(t *testing.T) {
	cs := &pb.ConfState{Voters: []uint64{1, 300}, Learners: []uint64{4}, VotersOutgoing: []uint64{1},
		LearnersNext: []uint64{1 << 60}, AutoLeave: new(true)}
	b := appendConfState(nil, cs)
	if got, want := hex.EncodeToString(b), "0201ac02010401010180808080808080801001"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, err := decodeConfState(b); err != nil || !proto.Equal(got, cs) {
		t.Errorf("%v %v", got, err)
	}
	for n := range b {
		if _, err := decodeConfState(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := decodeConfState(append(b, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one byte more: %v", err)
	}
}
