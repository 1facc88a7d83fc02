// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "time"

// NodeID is the identity in a node's data directory.
type NodeID [16]byte

// Instant is a reading of the node's clock in nanoseconds: one that never goes back and goes on while the machine is
// suspended (CLOCK_BOOTTIME). Only differences on one node mean anything.
type Instant int64

// Clock reads the node's clock. It is safe for concurrent use.
type Clock interface{ Now() Instant }

// Options of a Host and its Runner. The zero value but for Node is ready for use.
type Options struct {
	// Node is this node.
	Node NodeID
	// Tick is the unit of time; 50 ms if 0.
	Tick time.Duration
	// ElectionTicks is the least silence after which a follower campaigns; 20 if 0. All nodes must agree on it and on
	// Tick.
	ElectionTicks int
	// HeartbeatTicks is the time between heartbeats, of groups and of nodes; 2 if 0.
	HeartbeatTicks int

	// EntryBytes bounds the proposals that are packed into one entry; 128 KiB if 0.
	EntryBytes int
	// ProposalBytes bounds one proposal; 16 MiB if 0.
	ProposalBytes int
	// UnappliedEntries bounds the entries of proposals that a leader has in its log and not yet applied; 4 if 0. While
	// they are under way the next entry gathers.
	UnappliedEntries int
	// UnappliedNode is the number of such entries, of all groups together, at which proposals of all groups gather
	// until half of them are applied; 16 if 0. It is more than a few groups reach.
	UnappliedNode int
	// ProposalsPerGroup bounds the proposals of a group that have not ended; 4096 if 0.
	ProposalsPerGroup int
	// ProposalsNodeBytes bounds their bytes over all groups; 64 MiB if 0.
	ProposalsNodeBytes int64
	// ReadsPerGroup bounds the reads of a group that wait for an index; 65536 if 0.
	ReadsPerGroup int
	// InboxBytes bounds the messages that wait for the loop; 64 MiB if 0. Above it messages are dropped, except
	// snapshots.
	InboxBytes int64
	// LogQueueBytes bounds the entries that wait for the log writer; 64 MiB if 0. Above it appends of leaders are
	// dropped, which send them again, and own proposals wait.
	LogQueueBytes int64

	// TruncateEntries and TruncateBytes are the length of a log at which it is cut; 20,000 and 256 MiB if 0.
	// TruncateKeep entries stay for slow followers; half of TruncateEntries if 0. Where the bytes are too many, half of
	// the log stays at most.
	TruncateEntries uint64
	TruncateBytes   int64
	TruncateKeep    uint64
	// SnapshotsAtOnce bounds the snapshots that are sent, and those that are installed, at one time; 2 if 0.
	SnapshotsAtOnce int
	// SnapshotsHeld bounds those that arrive, or have arrived and are not installed yet; 8 if 0.
	SnapshotsHeld int

	// FateTicks is how long a replica that lost its leadership waits to see what became of its proposals; two election
	// timeouts if 0. FateEntries bounds the entries whose fate it waits for; 64 if 0. Beyond that the outcome is
	// ErrUnknown.
	FateTicks   int
	FateEntries int

	// AlwaysTick keeps idle groups from falling quiet.
	AlwaysTick bool
	// WakesPerTick bounds the quiet groups of a dead peer that are woken in one tick; 64 if 0.
	WakesPerTick int

	Events Events
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
	setDefault(&o.FateTicks, 2*o.ElectionTicks)
	setDefault(&o.FateEntries, 64)
	setDefault(&o.WakesPerTick, 64)
	return o
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Events are for an owner that wants to log, count or react. Each may be nil; they are called from within the steps and
// must not block.
type Events struct {
	// LeaderChanged: the group follows leader in term; its Replica is 0 for none, its Node is zero while nobody has
	// said where it is.
	LeaderChanged func(group uint64, leader Member, term uint64)
	// MembersChanged: a change of members was applied.
	MembersChanged func(group, index uint64)
	// Quiesced: the group fell quiet (or woke).
	Quiesced func(group uint64, quiet bool)
	// PeerDown: nothing was heard from the node for an election timeout (or it is back).
	PeerDown func(node NodeID, down bool)
	// UnknownGroup: a message came for a group that is not here, or for a replica of it that is younger than the one
	// that is.
	UnknownGroup func(group, replica uint64, from NodeID)
	// SnapshotSent, SnapshotInstalled: err is nil, or why not.
	SnapshotSent      func(group, to uint64, err error)
	SnapshotInstalled func(group, index uint64)
	// Truncated: the log begins after index.
	Truncated func(group, index uint64)
	// Dropped: messages were dropped because a bound was reached.
	Dropped func(bound string, n int)
	// Failed: the runner stopped because of err.
	Failed func(err error)
}
