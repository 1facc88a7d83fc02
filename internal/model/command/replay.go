// SPDX-License-Identifier: Apache-2.0

package command

// Replay is what becomes of an entry where an older state of its partition is brought forward: by a restore to a point
// in time, which writes what the log has changed to another table, of other partitions (RFC 0035).
type Replay uint8

// What becomes of entries.
const (
	// ReplayNothing passes it over: rows have nothing of it.
	ReplayNothing Replay = iota + 1
	// ReplayRows merges the operands of its mutations.
	ReplayRows
	// ReplayMerged goes on with the entries of the partition that it names: they are nobody else's.
	ReplayMerged
	// ReplayNever makes an end: what it does depends on what is there, or leaves no trace in rows. Only a state that is
	// newer than the entry has it.
	ReplayNever
)

// Replay is what becomes of entries of the kind; 0 for one that nobody has decided about.
func (k EntryKind) Replay() Replay {
	switch k {
	case EntryWrite:
		return ReplayRows
	case EntryMerge:
		return ReplayMerged
	case EntryTruncate:
		return ReplayNever
	case EntrySweep: // what nobody can see is removed again, by sweeps of those who have it then
		return ReplayNothing
	case EntryRequire, EntryFeature: // rules of the partition that was
		return ReplayNothing
	case EntryRecords: // the cluster's own, which are kept as a whole
		return ReplayNothing
	case EntrySplit: // the other half has a log of its own
		return ReplayNothing
	case EntryFreeze, EntryUnfreeze:
		return ReplayNothing
	}
	return 0
}

// Replay is what becomes of operands of the kind: ReplayRows or ReplayNothing; 0 for one that nobody has decided about.
func (k OpKind) Replay() Replay {
	switch k {
	case OpRow, OpHeader:
		return ReplayRows
	case OpIndex: // entries of indexes and hints of views are made anew of the rows
		return ReplayNothing
	case OpChange: // the change log of a restored table begins with what is written afterwards
		return ReplayNothing
	}
	return 0
}
