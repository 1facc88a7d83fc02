// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// NodeID is the ID stored in a node's data directory.
type NodeID = topology.NodeID

// Instant is a reading of the node's clock in nanoseconds. The clock is monotonic and advances while the machine is
// suspended (CLOCK_BOOTTIME). Only differences between instants of one node are meaningful.
type Instant int64

// Clock reads the node's clock. It is safe for concurrent use.
type Clock interface{ Now() Instant }

// Options configure a Host and its Runner. The zero value, except for Node, is ready for use.
type Options struct {
	// Node is the ID of this node.
	Node NodeID
	// Tick is the unit of time. The default is 50 ms.
	Tick time.Duration
	// ElectionTicks is the minimum time without messages after which a follower campaigns. The default is 20. All nodes
	// must use the same ElectionTicks and Tick.
	ElectionTicks int
	// HeartbeatTicks is the interval between heartbeats of groups and nodes. The default is 2.
	HeartbeatTicks int

	// EntryBytes is the maximum size of the proposals combined into one entry. The default is 128 KiB.
	EntryBytes int
	// ProposalBytes is the maximum size of one proposal. The default is 16 MiB.
	ProposalBytes int
	// UnappliedEntries is the maximum number of unapplied entries in a leader's log. The default is 4. At the maximum,
	// further proposals are collected for the next entry.
	UnappliedEntries int
	// UnappliedNode is the total number of unapplied entries of the node at which all groups collect their proposals
	// until half of the entries have been applied. The default is 16.
	UnappliedNode int
	// ProposalsPerGroup is the maximum number of uncompleted proposals of a group. The default is 4096.
	ProposalsPerGroup int
	// ProposalsNodeBytes is the maximum total size of the uncompleted proposals of all groups. The default is 64 MiB.
	ProposalsNodeBytes int64
	// ReadsPerGroup is the maximum number of reads of a group that wait for an index. The default is 65536.
	ReadsPerGroup int
	// InboxBytes is the maximum size of the messages that wait for the loop. The default is 64 MiB. Above this size,
	// all messages except snapshots are dropped.
	InboxBytes int64
	// LogQueueBytes is the maximum size of the entries that wait for the log writer. The default is 64 MiB. Above this
	// size, appends from leaders are dropped, and local proposals wait. The leaders repeat dropped appends.
	LogQueueBytes int64

	// TruncateEntries and TruncateBytes are the length and the size at which a log is truncated. The defaults are
	// 20,000 and 256 MiB. TruncateKeep is the number of entries kept for slow followers. The default is half of
	// TruncateEntries. If the log exceeds TruncateBytes, up to half of the log is kept.
	TruncateEntries uint64
	TruncateBytes   int64
	TruncateKeep    uint64
	// SnapshotsAtOnce is the maximum number of concurrent sends and the maximum number of concurrent installations of
	// snapshots. The default is 2.
	SnapshotsAtOnce int
	// SnapshotsHeld is the maximum number of incoming snapshots that are not yet installed. The default is 8.
	SnapshotsHeld int

	// OutcomeTicks is the time for which a replica that has lost its leadership waits for the outcomes of its
	// proposals. The default is two election timeouts. OutcomeEntries is the maximum number of entries for which the
	// replica waits. The default is 64. Beyond these limits, the outcome is ErrUnknown.
	OutcomeTicks   int
	OutcomeEntries int

	// AlwaysTick prevents idle groups from becoming quiescent.
	AlwaysTick bool
	// WakesPerTick is the maximum number of quiescent groups that the host wakes in one tick after a peer fails. The
	// default is 64.
	WakesPerTick int

	// Observer receives events. It may be nil.
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
