// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// halfway is the boundary in the middle of the ring.
var halfway = []byte{0x80, 0, 0, 0, 0, 0, 0, 0}

const childID = topology.PartitionID(5000)

// splitAt returns the split of a partition into halves. The members of the child are on the nodes of the partition.
func splitAt(at []byte, child topology.PartitionID, on ...int) *command.Split {
	s := &command.Split{Child: uint64(child), At: at}
	for n, i := range on {
		s.Voters = append(s.Voters, keys.Member{Replica: uint64(100 + n), Node: nodeID(i)})
	}
	return s
}

// split sends a split request to the leader of a partition until a node reports that the partition has split.
func (w *testCluster) split(id topology.PartitionID, s *command.Split) {
	w.t.Helper()
	w.until("the split", func() bool {
		r := w.replica(w.leader(id), id)
		_, epoch := r.Span()
		if epoch > keys.InitialEpoch {
			return true
		}
		err := r.Control().Split(context.Background(), keys.InitialEpoch, s)
		var moved *NotLeader
		var wrong *WrongRange
		if err != nil && !errors.As(err, &moved) && !errors.As(err, &wrong) && !errors.Is(err, ErrUncertain) &&
			!errors.Is(err, ErrClosed) {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

// anywhere sends a command for a key to the partition, and to the child after the child has received the key. The
// command has the same ID in both attempts.
func (w *testCluster) anywhere(id topology.PartitionID, key string, send sender) error {
	at := keys.Position{Ring: token.Hash([]byte(key)).Position(), Key: []byte(key)}
	to := id
	for a := w.newAttempts(); ; {
		err := w.retry(a, to, send)
		var wrong *WrongRange
		switch {
		case !errors.As(err, &wrong):
			return err
		case wrong.Have.Holds(at): // the partition is about to split
		case to != id:
			return fmt.Errorf("neither of them has it: %w", err)
		default:
			to = childID
		}
	}
}

// adopt creates the child of a split on the nodes where a snapshot of the parent replaced the split entry. Package
// reconcile does the same when it finds the child in the topology. All of these nodes have applied the split.
func (w *testCluster) adopt(child topology.PartitionID, on ...int) {
	w.t.Helper()
	for n, i := range on {
		if w.replica(i, child) == nil {
			if err := w.nodes[i].host.Load().Join(child, topology.ReplicaID(100+n)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestSplit checks a split during blind writes and counter updates while leaders change, are disconnected, and crash.
// Every acknowledged write must be visible exactly once, only in the partition that contains its key, and replicas must
// agree.
func TestSplit(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	w.leader(p.ID)
	stop := make(chan struct{})
	var troubles, clients sync.WaitGroup
	troubles.Go(func() { w.trouble(p.ID, stop) })
	end := time.Now().Add(4 * time.Second)
	tally := w.clients(&clients, end, func(key string, f sender) error { return w.anywhere(p.ID, key, f) })
	time.Sleep(time.Second)
	w.split(p.ID, splitAt(halfway, childID, 0, 1, 2))
	clients.Wait()
	close(stop)
	troubles.Wait()
	w.same(p.ID, 0, 1, 2)
	w.adopt(childID, 0, 1, 2)
	w.same(childID, 0, 1, 2)
	held := map[topology.PartitionID]int{}
	for n := range tally.sure {
		key, at := fmt.Sprint("counter ", n), p.ID
		if token.Hash([]byte(key)).Position() >= 1<<63 {
			at = childID
		}
		held[at]++
		if v, _ := w.read(at, key); v < tally.sure[n] || v > tally.sure[n]+tally.unsure[n] {
			t.Errorf("%s is %d after %d known and %d uncertain additions", key, v, tally.sure[n], tally.unsure[n])
		}
	}
	if len(held) != 2 {
		t.Errorf("one of the halves has no keys: %v", held)
	}
}

// TestSnapshotsOfParentAndChild checks that a node accepts only one of two snapshots at the same time. One is a
// snapshot of a partition before its split, and the other is a snapshot of the child. Installing both would stop the
// node.
func TestSnapshotsOfParentAndChild(t *testing.T) {
	w := newTestCluster(t, 2)
	p := w.newTable(0)
	receive := func(s *snapshots, id topology.PartitionID, data *storage.SnapshotFile) (raftgroup.SnapshotData, error) {
		return s.Receive(uint64(id), io.NewSectionReader(data, 0, data.Size()))
	}
	capture := func(id topology.PartitionID) *storage.SnapshotFile {
		t.Helper()
		data, err := w.nodes[0].store.CaptureSnapshot(t.Context(), uint64(id))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = data.Close() })
		return data
	}
	w.leader(p.ID)
	parent := capture(p.ID)
	w.split(p.ID, splitAt(halfway, childID, 0))
	child := capture(childID)
	s := &snapshots{ReplicaSets: w.nodes[1].host.Load().ReplicaSets(), store: w.nodes[1].store}
	for _, pair := range [][2]topology.PartitionID{{p.ID, childID}, {childID, p.ID}} {
		data := map[topology.PartitionID]*storage.SnapshotFile{p.ID: parent, childID: child}
		first, err := receive(s, pair[0], data[pair[0]])
		if err != nil {
			t.Fatal(err)
		}
		if second, err := receive(s, pair[1], data[pair[1]]); !errors.Is(err, errSnapshot) {
			t.Errorf("partition %d beside %d: %v", pair[1], pair[0], err)
			if err == nil {
				_ = second.Close()
			}
		}
		again, err := receive(s, pair[0], data[pair[0]])
		if err != nil {
			t.Errorf("partition %d again: %v", pair[0], err)
		} else if err := again.Close(); err != nil {
			t.Error(err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSplitOrUnfreeze checks a split and the entry that cancels it, both proposed at the same epoch. All replicas of a
// partition must apply the entry that comes first in its log. The test includes a leader without a quorum that has
// proposed the split, and that receives both entries when it has a quorum again.
func TestSplitOrUnfreeze(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	ctx, id, epoch, limit := context.Background(), p.ID, uint64(keys.InitialEpoch), p.Span.Limit
	order := func(n int) *command.Split {
		return splitAt([]byte{0x80 >> n, 0, 0, 0, 0, 0, 0, 0}, childID+topology.PartitionID(n), 0, 1, 2)
	}
	thaw := func() {
		w.done("the thaw", id, func(r *Replica) error { return r.Control().Unfreeze(ctx, epoch) },
			func(r *Replica) bool { _, now := r.Span(); return now > epoch })
	}
	// outcome waits until all replicas have the next epoch, and reports whether the partition has split.
	outcome := func(n int) bool {
		t.Helper()
		epoch++
		splits := 0
		for i := range w.nodes {
			w.until("the next epoch", func() bool {
				r := w.replica(i, id)
				if r == nil {
					return false
				}
				_, now := r.Span()
				return now >= epoch
			})
			span, now := w.replica(i, id).Span()
			split := span.Limit.Compare(limit) != 0
			if split {
				splits++
			}
			if now != epoch || split != (w.replica(i, topology.PartitionID(order(n).Child)) != nil) {
				t.Errorf("node %d: %s at epoch %d, the child is %v", i, span, now, order(n).Child)
			}
		}
		if splits != 0 && splits != len(w.nodes) {
			t.Errorf("%d of %d replicas have split", splits, len(w.nodes))
		}
		limit = func() topology.Position { span, _ := w.replica(0, id).Span(); return span.Limit }()
		return splits > 0
	}

	lone := w.leader(id) // the other nodes cancel the split without the knowledge of this node
	w.isolate(lone, true)
	var asked sync.WaitGroup
	asked.Go(func() { _ = w.replica(lone, id).Control().Split(ctx, epoch, order(0)) })
	thaw()
	w.isolate(lone, false)
	asked.Wait()
	if outcome(0) {
		t.Error("the partition was split after the cancellation")
	}

	w.done("the split", id, func(r *Replica) error { return r.Control().Split(ctx, epoch, order(0)) },
		func(r *Replica) bool { _, now := r.Span(); return now > epoch })
	var wrong *WrongRange
	w.until("the thaw to be refused", func() bool {
		return errors.As(w.replica(w.leader(id), id).Control().Unfreeze(ctx, epoch), &wrong)
	})
	if !outcome(0) {
		t.Error("a split in the log was canceled")
	}

	for n := 1; n <= 3; n++ {
		lone = w.leader(id)
		w.isolate(lone, true)
		r := w.replica(lone, id)
		asked.Go(func() { _ = r.Control().Split(ctx, epoch, order(n)) })
		asked.Go(func() { _ = r.Control().Unfreeze(ctx, epoch) })
		w.until("both are proposed, or nobody leads", func() bool {
			s, err := r.Membership().Status()
			return err == nil && (s.Last >= r.Applied()+2 || !s.Leading)
		})
		w.isolate(lone, false)
		asked.Wait()
		thaw()
		t.Logf("round %d: split %v", n, outcome(n))
	}
	w.same(id, 0, 1, 2)
}
