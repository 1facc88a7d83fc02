// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// noKey is the key of a directory that is not encrypted.
var noKey encryption.KeySource

// directoryOf creates the data directory that a node's survey describes. The log of partition 1 also has two entries
// that are not applied: a split and then a membership change.
func (w *testCluster) directoryOf(n int) string {
	w.t.Helper()
	s := w.survey(n)
	dir := filepath.Join(w.t.TempDir(), "data")
	store, err := storage.Open(vfs.Default, dir, storage.Options{Identity: storage.Identity{Cluster: s.Cluster,
		Node: s.Node}})
	if err != nil {
		w.t.Fatal(err)
	}
	log, _, err := membership.OpenLog(store, filepath.Join(dir, membership.LogDir), raftlog.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	b, l := store.NewBatch(), log.NewBatch()
	for _, r := range s.Records {
		b.Set(keys.MetaID, r.Key, r.Value)
	}
	b.Set(keys.MetaID, []byte(keys.MetadataVersionKey), []byte{0, 0, 0, 0, 0, 0, 0, byte(s.Version)})
	for _, r := range s.Replicas {
		m, err := keys.DecodeMeta(r.Meta)
		if err == nil {
			b.PutMeta(&m)
			b.PutReplica(&keys.Replica{Partition: r.Partition, Replica: r.Replica})
			err = l.Reset(r.Partition, r.Last, r.LastTerm, &pb.ConfState{})
		}
		if err == nil {
			err = l.SetHardState(r.Partition, r.Term, 0, r.Last)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	split := command.Entry{Kind: command.EntrySplit, Epoch: 1, Split: command.Split{Child: 50, At: []byte{0x40, 0, 0,
		0, 0, 0, 0, 0},
		Voters: []keys.Member{{Replica: 300, Node: nodeID(1)}, {Replica: 301, Node: nodeID(2)}, {Replica: 302,
			Node: nodeID(3)},
			{Replica: 303, Node: nodeID(4)}}}}
	err = l.Append(1, []*pb.Entry{
		{Index: new(uint64(101)), Term: new(uint64(7)), Type: new(pb.EntryNormal),
			Data: raftgroup.EncodeCommands(5, [][]byte{command.AppendEntry(nil, &split)})},
		{Index: new(uint64(102)), Term: new(uint64(7)), Type: new(pb.EntryConfChangeV2), Data: []byte{}},
	})
	if err = errors.Join(err, l.Commit(true), l.Close(), b.Commit(), store.Sync(), log.Close()); err != nil {
		w.t.Fatal(err)
	}
	b.Close()
	if err := store.Close(); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// starts opens a directory like a starting node.
func starts(t *testing.T, dir string, look func(store *storage.Store, log *raftlog.Store)) error {
	t.Helper()
	store, err := storage.Open(vfs.Default, dir, storage.Options{})
	if err != nil {
		return err
	}
	log, _, err := membership.OpenLog(store, filepath.Join(dir, membership.LogDir), raftlog.Options{})
	if err == nil {
		look(store, log)
		err = log.Close()
	}
	return errors.Join(err, store.Close())
}

// TestApplyInterrupted checks RV4. If Apply is interrupted after any step, the node does not start. Applying the same
// plan again resumes and produces the same result, and any other plan is rejected.
func TestApplyInterrupted(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	for steps := range 5 {
		dir := w.directoryOf(1)
		s, err := Inspect(dir, noKey, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.plan([]int{2, 3, 4}, s)
		if err != nil {
			t.Fatal(err)
		}
		d, err := open(dir, noKey, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.begin(d, "digest", dir); err != nil {
			t.Fatal(err)
		}
		a := applier{Plan: p, directory: d, node: s.Node}
		for _, step := range []func() error{a.changeLogs, a.changeState, a.rename, func() error {
			return a.recordDone("digest", dir, time.Unix(1e9, 0))
		}}[:steps] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
		if err := starts(t, dir, nil); err == nil || !strings.Contains(err.Error(), "is incomplete") {
			t.Fatalf("after %d steps the node starts: %v", steps, err)
		}
		if _, err := Inspect(dir, noKey, time.Now()); err == nil || !strings.Contains(err.Error(), "is incomplete") {
			t.Fatalf("after %d steps it can be surveyed: %v", steps, err)
		}
		if err := Apply(p, "another", dir, noKey, time.Now()); err == nil {
			t.Fatal("another plan is applied")
		}
		if err := Apply(p, "digest", dir, noKey, time.Now()); err != nil {
			t.Fatalf("after %d steps: %v", steps, err)
		}
		if err := Apply(p, "digest", dir, noKey, time.Now()); !errors.Is(err, ErrDone) {
			t.Fatalf("once more: %v", err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, doneFile)); err != nil || !strings.Contains(string(b),
			"plan digest") {
			t.Errorf("it is not recorded: %s (%v)", b, err)
		}
		if err := starts(t, dir, func(store *storage.Store, log *raftlog.Store) {
			checkApplied(t, p, store,
				log)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// checkApplied checks that a directory matches a plan.
func checkApplied(t *testing.T, p *Plan, store *storage.Store, log *raftlog.Store) {
	t.Helper()
	if ID(store.Identity().Cluster) != p.Next {
		t.Error("it is of the old cluster")
	}
	m, _, err := store.Meta(1)
	if err != nil || len(m.Voters) != 1 || m.Voters[0].Node != nodeID(1) {
		t.Errorf("voters %+v (%v)", m.Voters, err)
	}
	m, _, err = store.Meta(keys.MetaPartition)
	if err != nil || m.Applied != p.Index || m.Term != p.Term || len(m.Voters) != 1 {
		t.Errorf("the meta partition is %+v (%v)", m, err)
	}
	if r, err := readRecords(store.Records); err != nil || r.version != p.Version || len(r.values) != len(p.Records) {
		t.Errorf("%d records at version %d (%v)", len(r.values), r.version, err)
	}
	g, err := log.Group(1)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := g.Entries(101, 103, 1<<20)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries (%v)", len(entries), err)
	}
	_, commands, err := raftgroup.DecodeCommands(entries[0].GetData())
	if err != nil {
		t.Fatal(err)
	}
	var e command.Entry
	if err := command.DecodeEntry(&e, commands[0]); err != nil || len(e.Split.Voters) != 1 ||
		e.Split.Voters[0].Replica != 300 {
		t.Errorf("the child has %+v (%v)", e.Split.Voters, err)
	}
	if entries[1].GetType() != pb.EntryNormal || len(entries[1].GetData()) > 0 || entries[1].GetTerm() != 7 {
		t.Errorf("the change of members is %v", entries[1])
	}
	if part := p.groupOf(50); part == nil || len(part.Votes) != 1 {
		t.Errorf("the child is %+v", part)
	}
}

// TestChangedDirectory checks that a plan is rejected in a directory whose logs have grown since it was inspected, and
// in the directory of another node. A start alone is not a change. Corrupted plans are rejected, and a plan is not
// accepted as a survey.
func TestChangedDirectory(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	dir, other := w.directoryOf(1), w.directoryOf(2)
	s, err := Inspect(dir, noKey, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "survey")
	if err := WriteNodeState(name, s); err != nil {
		t.Fatal(err)
	}
	if s, err = ReadNodeState(name); err != nil {
		t.Fatal(err)
	}
	p, err := w.plan([]int{2, 3, 4}, s)
	if err != nil {
		t.Fatal(err)
	}
	planName := filepath.Join(t.TempDir(), "plan")
	digest, err := WritePlan(planName, p)
	if err != nil {
		t.Fatal(err)
	}
	if p, _, err = ReadPlan(planName); err != nil {
		t.Fatal(err)
	}
	err = Apply(p, digest, other, noKey, time.Now())
	if err == nil || !strings.Contains(err.Error(), "is not in the plan") {
		t.Errorf("another node: %v", err)
	}
	grows := func(_ *storage.Store, log *raftlog.Store) {
		l := log.NewBatch()
		entry := &pb.Entry{Index: new(uint64(103)), Term: new(uint64(9)), Type: new(pb.EntryNormal)}
		if err := errors.Join(l.Append(1, []*pb.Entry{entry}), l.Commit(true), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	grown := filepath.Join(t.TempDir(), "grown")
	if err := os.CopyFS(grown, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := starts(t, grown, grows); err != nil {
		t.Fatal(err)
	}
	if err := Apply(p, digest, grown, noKey, time.Now()); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("its log has grown: %v", err)
	}
	if err := starts(t, dir, func(*storage.Store, *raftlog.Store) {}); err != nil {
		t.Fatal(err)
	}
	if err := Apply(p, digest, dir, noKey, time.Now()); err != nil {
		t.Errorf("it was started: %v", err)
	}
	b, err := os.ReadFile(planName)
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(b) / 97 {
		bad := append([]byte{}, b...)
		bad[at*97] ^= 4
		if err := os.WriteFile(planName, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadPlan(planName); err == nil {
			t.Fatalf("a plan with a flipped bit at %d is taken", at*97)
		}
	}
	if _, err := ReadNodeState(planName); err == nil {
		t.Error("a plan is taken for a survey")
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the survey can be read by others: %v (%v)", info.Mode(), err)
	}
}
