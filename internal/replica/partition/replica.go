// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Replica is one replica of one physical partition.
type Replica struct {
	replicaSet
	currentState
	host *Host
	// member is the ID of this replica in its partition, or 0 if the topology does not contain the replica.
	member topology.ReplicaID
	stamps stamps
	// stamping is held from the assignment of a timestamp until the proposal of the entry, so that the log is in the
	// order of timestamps.
	stamping sync.Mutex
	// horizon is the highest timestamp that readers can see. All entries with lower timestamps have been applied (P12).
	horizon    atomic.Int64
	dedupe     dedupeWindow
	throughput Throughput
	load       Load
	sizes      SizeLimits
	// schema is the minimum schema version of mutations; see Require.
	schema schemaRevision
	// level is the feature.Level that the log has installed.
	level atomic.Uint32
	// visible is the index of the last entry that the machine has committed.
	visible atomic.Uint64
	local   localReads
	// rejectFrom is the position from which a split or merge in progress moves the span to another partition. The
	// replica rejects writes at or after this position. rejectFrom is nil if no split or merge is in progress.
	rejectFrom atomic.Pointer[topology.Position]
	// wholeBatch is the number of the last batch that may have changed all keys; see unsynced.
	wholeBatch atomic.Uint64

	// quorumLowDisk is true while too few other voters have free disk space; see SetFullDisks.
	quorumLowDisk atomic.Bool

	requests requestTracker
	// dead is set when another partition has taken over the span. installing is held while a snapshot replaces the
	// state and while a merge moves the state to another partition.
	dead       atomic.Bool
	installing sync.Mutex

	// ahead is the applied state, including entries that readers cannot see yet. Only the machine uses it.
	ahead appliedState
}

// newReplica creates a replica from its meta. If meta is nil, the replica waits for its first snapshot.
func newReplica(h *Host, n *replicaInit) (*Replica, error) {
	meta := n.meta
	if meta == nil {
		meta = &keys.Meta{Partition: uint64(n.id)}
	}
	s, err := stateOf(meta)
	if err != nil {
		return nil, err
	}
	r := &Replica{member: n.replica}
	r.init(h, n.id)
	r.local.since.Store(math.MaxInt64)
	r.seq = h.seqs.sequencer(r, meta)
	r.throughput.budget.Set(h.throughputOf(r.id), h.budgetClock())
	r.state.Store(s)
	r.stamps.last.Store(meta.MaxTimestamp)
	r.dedupe.epoch = &h.dedupeEpoch
	if n.meta == nil {
		r.dedupe.reset(h.clock.Now())
		return r, nil
	}
	if r.isMeta() {
		version, err := recordsVersion(h.store)
		if err != nil {
			return nil, err
		}
		r.ahead.notifiedVersion = version // the opener of the host reads the records later
	}
	return r, r.refresh(meta)
}

// schemaRevision is a revision of the schema that never decreases.
type schemaRevision struct{ atomic.Uint64 }

func (v *schemaRevision) raise(revision uint64) {
	for {
		old := v.Load()
		if old >= revision || v.CompareAndSwap(old, revision) {
			return
		}
	}
}

// init connects the parts of a new replica.
func (r *Replica) init(h *Host, id topology.PartitionID) {
	r.host, r.id = h, id
	r.requests.drained = make(chan struct{})
	r.throughput.host, r.throughput.set = h, &r.replicaSet
	r.load.host, r.load.id, r.load.state, r.load.throughput = h, id, &r.state, &r.throughput
	r.sizes.host, r.sizes.id = h, id
}

// refresh updates the replica from a stored meta.
func (r *Replica) refresh(meta *keys.Meta) error {
	var version uint64
	if r.isMeta() {
		var err error
		if version, err = recordsVersion(r.host.store); err != nil {
			return err
		}
	}
	s, err := stateOf(meta)
	if err != nil {
		return err
	}
	r.ahead.load(meta, version)
	r.state.Store(s)
	now := r.host.clock.Now()
	r.dedupe.reset(now)
	if meta.Applied == keys.InitialApplied && len(meta.Parents) == 0 {
		r.dedupe.markComplete()
	}
	r.show(now)
	return nil
}

// Member returns the ID of this replica in its partition.
func (r *Replica) Member() topology.ReplicaID { return r.member }

// Throughput returns the throughput limit of the partition.
func (r *Replica) Throughput() *Throughput { return &r.throughput }

// Load returns the load record of the replica.
func (r *Replica) Load() *Load { return &r.load }

// SizeLimits returns the size limits of logical partitions.
func (r *Replica) SizeLimits() *SizeLimits { return &r.sizes }

// accepts checks that a mutation belongs to this replica and was planned for a sufficiently new schema. The caller must
// hold the stripe's mutex from this call until the proposal; see Require.
func (r *Replica) accepts(m *command.Mutation) error {
	s := r.state.Load()
	if r.isMeta() || m.Table != s.keys.Table || !s.serves(m.Position()) {
		return r.wrongRange()
	}
	if at := r.rejectFrom.Load(); at != nil && m.Position().Compare(*at) >= 0 {
		return r.wrongRange()
	}
	if m.SchemaVersion != 0 && m.SchemaVersion < r.schema.Load() {
		return ErrStaleSchema
	}
	return nil
}

// admits rejects a mutation that must not be proposed. It must check the disk space, because replicas apply all
// proposed entries regardless of their disk space.
func (r *Replica) admits(m *command.Mutation) error {
	if err := r.accepts(m); err != nil {
		return err
	}
	if err := r.sizes.check(m); err != nil {
		return err
	}
	return r.host.store.Admit(m, r.quorumLowDisk.Load())
}

func (r *Replica) wrongRange() error {
	s := r.state.Load()
	return &WrongRange{Partition: r.id, Have: s.span, Epoch: s.epoch}
}

// NoteAcknowledged records that index has been acknowledged to this node. A follower must have applied this index
// before it serves local reads.
func (r *Replica) NoteAcknowledged(index uint64) { r.local.noteAcknowledged(index) }
