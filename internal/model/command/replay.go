// SPDX-License-Identifier: Apache-2.0

package command

// Replay determines how a point-in-time restore treats a log entry. The restore replays the log over an older state,
// into another table with other partitions (RFC 0035).
type Replay uint8

// These are the values of Replay.
const (
	// ReplayNothing skips the entry, because it does not affect rows.
	ReplayNothing Replay = iota + 1
	// ReplayRows merges the operands of its mutations.
	ReplayRows
	// ReplayMerged continues with the entries of the partition that the entry names. No other partition replays them.
	ReplayMerged
	// ReplayNever stops the replay. The effect of the entry depends on stored data or cannot be derived from rows.
	// Only a state that is newer than the entry includes it.
	ReplayNever
)

// Replay returns the treatment of entries of the kind. It returns 0 if no treatment has been decided for the kind.
func (k EntryKind) Replay() Replay {
	switch k {
	case EntryWrite:
		return ReplayRows
	case EntryMerge:
		return ReplayMerged
	case EntryTruncate:
		return ReplayNever
	case EntrySweep: // sweeps of the restored partitions remove the data again
		return ReplayNothing
	case EntryRequire, EntryFeature: // settings of the original partition
		return ReplayNothing
	case EntryRecords: // cluster metadata, which is backed up as a whole
		return ReplayNothing
	case EntrySplit: // the other half has its own log
		return ReplayNothing
	case EntryFreeze, EntryUnfreeze:
		return ReplayNothing
	}
	return 0
}

// Replay returns ReplayRows or ReplayNothing for operands of the kind. It returns 0 if no treatment has been decided
// for the kind.
func (k OpKind) Replay() Replay {
	switch k {
	case OpRow, OpHeader:
		return ReplayRows
	case OpIndex: // index entries and view hints are rebuilt from the rows
		return ReplayNothing
	case OpChange: // the change log of a restored table starts with the first write after the restore
		return ReplayNothing
	}
	return 0
}
