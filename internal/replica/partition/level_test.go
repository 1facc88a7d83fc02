// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

var laterLevels = feature.Range{Oldest: 1, Newest: feature.Newest + 1}

// laterWriter writes like a later build. In partitions with its feature level, entries contain a field that this build
// does not support.
type laterWriter struct {
	sequencer
	r      *Replica
	fields *atomic.Int64
}

func (l laterWriter) propose(term uint64, entry []byte, w raftgroup.Waiter) error {
	if l.r.Level() >= laterLevels.Newest {
		head := len(command.AppendEntry(nil, &command.Entry{Kind: command.EntryRequire, Epoch: keys.InitialEpoch})) - 2
		field := codec.Writer(append([]byte{}, entry[:head]...))
		field.Field(99, false, []byte("later"))
		entry = append(field, entry[head:]...)
		l.fields.Add(1)
	}
	return l.sequencer.propose(term, entry, w)
}

// becomeLater changes the running node's replica of a partition into a replica of a later build.
func (w *testCluster) becomeLater(i int, id topology.PartitionID, fields *atomic.Int64) {
	r := w.replica(i, id)
	r.seq = laterWriter{r.seq, r, fields}
}

// lead transfers a partition's leadership to a node.
func (w *testCluster) lead(id topology.PartitionID, i int) {
	w.t.Helper()
	w.until(fmt.Sprintf("node %d leads", i), func() bool {
		now := w.leader(id)
		if now != i {
			_ = w.replica(now, id).Membership().Transfer(w.replica(i, id).Member())
		}
		return now == i
	})
}

// TestTwoFeatureLevels checks that nodes of two builds store the same rows, with either node as the leader. The later
// build must not write entries of its level before the partition's log has raised the level, when all nodes support it.
// The older build must then be unable to open its directory.
func TestTwoFeatureLevels(t *testing.T) {
	w := newTestCluster(t, 3)
	for _, i := range []int{1, 2} {
		w.stop(i)
		w.nodes[i].levels = laterLevels
		w.start(i)
	}
	p := w.newTable(0, 1, 2)
	var fields atomic.Int64
	w.becomeLater(1, p.ID, &fields)
	w.becomeLater(2, p.ID, &fields)
	keysWritten := 0
	writeAll := func() {
		t.Helper()
		for lead := range w.nodes {
			w.lead(p.ID, lead)
			for range 5 {
				if err := w.write(p.ID, fmt.Sprint(keysWritten), int64(keysWritten)); err != nil {
					t.Fatal(err)
				}
				keysWritten++
			}
		}
		w.same(p.ID, 0, 1, 2)
	}
	writeAll()
	w.stop(0)
	w.nodes[0].levels = laterLevels
	w.start(0)
	w.becomeLater(0, p.ID, &fields)
	writeAll()
	for i := range w.nodes {
		if r := w.replica(i, p.ID); r.Level() != feature.Newest || w.nodes[i].store.Level() != feature.Newest ||
			fields.Load() > 0 {
			t.Errorf(
				"node %d is at level %d, its directory at %d; %d entries are of the later build",
				i,
				r.Level(),
				w.nodes[i].store.Level(),
				fields.Load(),
			)
		}
	}
	if err := w.request(p.ID, func(r *Replica, _ func(*command.Mutation)) error {
		return r.Control().RaiseLevel(t.Context(), laterLevels.Newest)
	}); err != nil {
		t.Fatal(err)
	}
	w.until("all are raised", func() bool {
		for i := range w.nodes {
			if w.replica(i, p.ID).Level() != laterLevels.Newest || w.nodes[i].store.Level() != laterLevels.Newest {
				return false
			}
		}
		return true
	})
	writeAll()
	if fields.Load() == 0 {
		t.Error("nothing of the level was written")
	}
	w.crash(2)
	w.start(2)
	w.same(p.ID, 0, 1, 2)
	if level := w.replica(2, p.ID).Level(); level != laterLevels.Newest {
		t.Errorf("after a crash the level is %d", level)
	}
	w.stop(0)
	if _, err := storage.Open(w.nodes[0].fs, "rows", storage.Options{}); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("the older build opens the directory: %v", err)
	}
}

// TestLevelNotUnderstood checks that a build stops with an error at an entry that installs an unsupported level. The
// directory must remain unchanged, so that a later build can resume.
func TestLevelNotUnderstood(t *testing.T) {
	w := newTestCluster(t, 3)
	for _, i := range []int{1, 2} {
		w.stop(i)
		w.nodes[i].levels = laterLevels
		w.start(i)
	}
	p := w.newTable(0, 1, 2)
	w.lead(p.ID, 1)
	if err := w.replica(1, p.ID).Control().RaiseLevel(t.Context(), laterLevels.Newest); err != nil {
		t.Fatal(err)
	}
	var err error
	w.until("the older node stops", func() bool { err = w.nodes[0].host.Load().Failed(); return err != nil })
	want := fmt.Sprintf("(feature level %d); this version supports 1 to %d", laterLevels.Newest, feature.Newest)
	if !errors.Is(err, feature.ErrNewer) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if level := w.nodes[0].store.Level(); level != feature.Newest {
		t.Errorf("its directory was raised to %d", level)
	}
	n := w.nodes[0]
	n.fs = n.fs.CrashClone(vfs.CrashCloneCfg{})
	// This returns the error that stopped the node.
	_ = errors.Join(n.host.Swap(nil).Close(), n.store.Close(), n.log.Close())
	n.levels = laterLevels
	w.start(0)
	if err := w.write(p.ID, "k", 1); err != nil {
		t.Fatal(err)
	}
	w.same(p.ID, 0, 1, 2)
}

// TestEntryOfLaterBuild checks that an entry of an unsupported kind stops this build, even after a restart. The error
// must name the kind and must not report damage. A replica must never skip an entry that other replicas have applied.
func TestEntryOfLaterBuild(t *testing.T) {
	w := newTestCluster(t, 1)
	p := w.newTable(0)
	w.leader(p.ID)
	r := w.replica(0, p.ID)
	done := make(outcomeWaiter, 1)
	if err := r.seq.propose(r.seq.evaluating(), []byte{command.Version, 6, 99, 1, 0, 1, 2, 3}, done); err != nil {
		t.Fatal(err)
	}
	n := w.nodes[0]
	for range 2 {
		var err error
		w.until("the node stops", func() bool { err = n.host.Load().Failed(); return err != nil })
		if !errors.Is(err, feature.ErrNewer) || errors.Is(err, command.ErrMalformed) ||
			!strings.Contains(err.Error(), "(kind 99); this version supports 10") {
			t.Errorf("%v", err)
		}
		left := n.fs.CrashClone(vfs.CrashCloneCfg{})
		// This returns the error that stopped the node.
		_ = errors.Join(n.host.Swap(nil).Close(), n.store.Close(), n.log.Close())
		n.fs = left
		w.start(0)
	}
	_ = n.host.Swap(nil).Close()
	_ = errors.Join(n.store.Close(), n.log.Close())
}
