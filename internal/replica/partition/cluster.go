// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// Cluster makes the replicas of a Host members of replica sets.
type Cluster struct {
	// Node is this node.
	Node topology.NodeID
	// Log keeps the logs of all replicas; the host does not close it.
	Log *raftlog.Store
	// Transport carries frames to other nodes.
	Transport raftgroup.Transport
	// Clock is that of leases; raftgroup.BootClock if nil.
	Clock raftgroup.Clock
	// Raft tunes the groups. Its Node is set, and its events are called besides the host's own.
	Raft raftgroup.Options
	// StalenessMax is how long ago a follower that serves reads may have heard from its leader; 500 ms if 0.
	StalenessMax time.Duration
	// RecordsChanged: the local replica of the meta partition has applied a change, or installed a snapshot; its records are at this
	// version or a later one. It must not block.
	RecordsChanged func(version uint64)
	// LeaderChanged: the partition follows a leader on this node, the zero NodeID if none is known; here says that the leader is the
	// local replica. It must not block.
	LeaderChanged func(id topology.PartitionID, leader topology.NodeID, here bool)
}

// errAlone answers what only members of a replica set can do.
var errAlone = errors.New("the node stands alone: it has no replica sets")

// Join makes an empty replica of a partition that waits for its first snapshot: the leader sends one when it adds the replica to its
// configuration. One that is here already is left alone. Durable when it returns.
func (h *Host) Join(id topology.PartitionID, replica topology.ReplicaID) error { return errAlone }

// Receive takes a frame of another node; it is the caller's again when Receive returns.
func (h *Host) Receive(from topology.NodeID, frame []byte) error { return errAlone }

// ReceiveSnapshot takes a snapshot that another node sends and returns when it was handed on, or why not.
func (h *Host) ReceiveSnapshot(from topology.NodeID, r io.Reader, size int64) error { return errAlone }

// NodeGone is for the proof that a node's process is gone: its address refused a connection. What it led elects a leader at once.
func (h *Host) NodeGone(node topology.NodeID) {}

// Handover gives every leadership of the node to a voter that has all of the log, and waits until what is under way has ended. Call it
// before Close. It ends with its context; what is left then is decided by elections.
func (h *Host) Handover(ctx context.Context) error { return nil }

// WriteAll applies several mutations of this partition as one: see Host.WriteAtomic. Mutations[0].Dedupe is the id of all.
func (r *Replica) WriteAll(ctx context.Context, parts []Part, done command.Completion) error {
	return r.host.WriteAtomic(ctx, parts, done)
}

// Require makes the partition refuse mutations that were planned for an older revision of the schema, with ErrStaleSchema. When it
// returns, those that were accepted before are applied, in a cluster at all replicas that serve reads of a leader.
func (r *Replica) Require(ctx context.Context, revision uint64) error {
	r.RequireSchema(revision)
	return nil
}

// Last is the highest stamp that the partition has given. Only the leader knows.
func (r *Replica) Last(ctx context.Context) (stamp int64, err error) { return r.stamps.last.Load(), nil }

// Change changes records of the meta partition if they are still at the expected version, and returns the new version, or
// *Conflict with the present one. Only the leader of the meta partition can. Keys begin with a byte above 0.
func (r *Replica) Change(ctx context.Context, c command.Records) (version uint64, err error) {
	return 0, errAlone
}

// Records passes one state of the meta partition's records to fn, in order of their keys, and returns its version. It serves what
// the local replica has applied. Arguments are valid during the call.
func (h *Host) Records(fn func(key, value []byte) error) (version uint64, err error) {
	return 0, errAlone
}

// Leading reports whether this replica leads and may evaluate. It is a hint: it may have changed already. Stand-alone it is true.
func (r *Replica) Leading() bool { return true }

// Leader returns the node that leads, as far as this replica knows.
func (r *Replica) Leader() (topology.NodeID, bool) { return topology.NodeID{}, false }

// Seen says that this node has seen index acknowledged: a read that a follower serves here has applied at least that much.
func (r *Replica) Seen(index uint64) {}

// Applied is the index of the last entry that readers here see, 0 stand-alone.
func (r *Replica) Applied() uint64 { return 0 }

// Status is what the replica knows of its replica set.
func (r *Replica) Status() (raftgroup.Status, error) { return raftgroup.Status{}, errAlone }

// Transfer asks another replica to lead.
func (r *Replica) Transfer(to topology.ReplicaID) error { return errAlone }

// Campaign makes a replica set without a leader elect one now.
func (r *Replica) Campaign() {}

// ChangeMembers changes the members of the replica set and returns when this replica, its leader, has applied the change.
func (r *Replica) ChangeMembers(ctx context.Context, changes []raftgroup.Change) error { return errAlone }
