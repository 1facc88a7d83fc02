// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// NodeID is the identity stored in a node's data directory.
type NodeID = topology.NodeID

// Instant is a reading of the node's clock in nanoseconds. The clock is monotonic and advances while the machine is
// suspended (CLOCK_BOOTTIME). Only differences on one node are meaningful.
type Instant int64

// Clock reads the node's clock. It is safe for concurrent use.
type Clock interface{ Now() Instant }

// Options configure a Host and its Runner. The zero value, except for Node, is ready for use.
type Options struct {
	// Node is the ID of this node.
	Node NodeID
	// Tick is the unit of time; 50 ms if 0.
	Tick time.Duration
	// ElectionTicks is the minimum silence after which a follower campaigns; 20 if 0. All nodes must use the same
	// ElectionTicks and Tick.
	ElectionTicks int
	// HeartbeatTicks is the interval between heartbeats of groups and nodes; 2 if 0.
	HeartbeatTicks int

	// EntryBytes bounds the proposals combined into one entry; 128 KiB if 0.
	EntryBytes int
	// ProposalBytes bounds one proposal; 16 MiB if 0.
	ProposalBytes int
	// UnappliedEntries bounds the entries in a leader's log that are not yet applied; 4 if 0. In the meantime, further
	// proposals are collected for the next entry.
	UnappliedEntries int
	// UnappliedNode is the number of such entries, over all groups, from which proposals of all groups are collected
	// until half of the entries are applied; 16 if 0. It is more than a few groups reach.
	UnappliedNode int
	// ProposalsPerGroup bounds the uncompleted proposals of a group; 4096 if 0.
	ProposalsPerGroup int
	// ProposalsNodeBytes bounds their bytes over all groups; 64 MiB if 0.
	ProposalsNodeBytes int64
	// ReadsPerGroup bounds the reads of a group that wait for an index; 65536 if 0.
	ReadsPerGroup int
	// InboxBytes bounds the messages that wait for the loop; 64 MiB if 0. Further messages are dropped, except
	// snapshots.
	InboxBytes int64
	// LogQueueBytes bounds the entries that wait for the log writer; 64 MiB if 0. Above it, appends from leaders are
	// dropped, which the leaders repeat, and own proposals wait.
	LogQueueBytes int64

	// TruncateEntries and TruncateBytes are the length of a log at which it is truncated; 20,000 and 256 MiB if 0.
	// TruncateKeep entries are kept for slow followers; half of TruncateEntries if 0. If there are too many bytes, at
	// most half of the log is kept.
	TruncateEntries uint64
	TruncateBytes   int64
	TruncateKeep    uint64
	// SnapshotsAtOnce bounds the snapshots that are sent concurrently, and the snapshots that are installed
	// concurrently; 2 if 0.
	SnapshotsAtOnce int
	// SnapshotsHeld bounds the snapshots that are arriving, or have arrived and are not yet installed; 8 if 0.
	SnapshotsHeld int

	// OutcomeTicks is the time that a replica that lost its leadership waits for the outcome of its proposals; two
	// election timeouts if 0. OutcomeEntries bounds the entries that it waits for; 64 if 0. Beyond these limits, the
	// outcome is ErrUnknown.
	OutcomeTicks   int
	OutcomeEntries int

	// AlwaysTick prevents idle groups from becoming quiescent.
	AlwaysTick bool
	// WakesPerTick bounds the quiescent groups of a dead peer that are woken in one tick; 64 if 0.
	WakesPerTick int

	// Observer is notified of events. It may be nil.
	Observer Observer
}

func (o Options) withDefaults() Options {
	setDefault(&o.Tick, 50*time.Millisecond)
	setDefault(&o.ElectionTicks, 20)
	setDefault(&o.HeartbeatTicks, 2)
	setDefault(&o.EntryBytes, 128<<10)
	setDefault(&o.ProposalBytes, 16<<20)
	setDefault(&o.UnappliedEntries, 4)
	setDefault(&o.UnappliedNode, 16)
	setDefault(&o.ProposalsPerGroup, 4096)
	setDefault(&o.ProposalsNodeBytes, 64<<20)
	setDefault(&o.ReadsPerGroup, 1<<16)
	setDefault(&o.InboxBytes, 64<<20)
	setDefault(&o.LogQueueBytes, 64<<20)
	setDefault(&o.TruncateEntries, 20_000)
	setDefault(&o.TruncateBytes, 256<<20)
	setDefault(&o.TruncateKeep, o.TruncateEntries/2)
	setDefault(&o.SnapshotsAtOnce, 2)
	setDefault(&o.SnapshotsHeld, 8)
	setDefault(&o.OutcomeTicks, 2*o.ElectionTicks)
	setDefault(&o.OutcomeEntries, 64)
	setDefault(&o.WakesPerTick, 64)
	if o.Observer == nil {
		o.Observer = NoObserver{}
	}
	return o
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}
