// SPDX-License-Identifier: Apache-2.0

// Package command is what a coordinator says to a replica and what it hears back: Mutation, Conditional, Read, Sweep,
// the Entry of a replica set's log, and their versioned encoding.
//
// Guarantees: (CM1) a command carries everything its application needs: no clock, catalog or configuration of the
// replica takes part, so the same log gives the same rows; (CM2) an encoded command names its version, and what a newer
// build has added to it is passed over or refused with feature.ErrNewer, never misread. Rows and keys are opaque bytes
// here, made by packages row and cqltype. Start at Mutation and Read.
package command

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/token"
)

// OpKind says where in a partition an operand is merged.
type OpKind uint8

// The kinds of Op.
const (
	// OpRow merges into the row of Op.Clustering.
	OpRow OpKind = iota
	// OpHeader merges into the partition header: static cells, the partition deletion, deleted ranges.
	OpHeader
	// OpIndex records that the row may have Op.Value under index Op.Index. Entries are hints: whoever reads one checks
	// the row, and sweeps remove those that no longer hold. So writing one needs no read of the old value.
	OpIndex
	// OpChange enters the row in the change log, at the stamp of the mutation, from feature level 4 on (RFC 0024).
	OpChange
)

// The flags of an OpChange, in Op.Index.
const (
	// ChangeLatest leaves an entry for the row as it is now: it was not deleted.
	ChangeLatest uint32 = 1 << iota
	// ChangeKept keeps Op.Operand, a row of what the change has made of the row (see ChangeBefore), until that expires.
	ChangeKept
	// ChangePointed is for rows that do not know their entry: a key of its own does, from feature level 5 on. Entries
	// are as ChangeLatest and the one before say, whatever the row has.
	ChangePointed
	// ChangeRanges enters no row, but the deletion of ranges of them, or of the partition: kept, and before the changes
	// of rows in the same mutation.
	ChangeRanges
	changeFlags = ChangeLatest | ChangeKept | ChangePointed | ChangeRanges
)

// The columns of a change that is kept: those of the row as it is after the change have their own ids, those of the row
// before have the bit ChangeBefore. ChangeKind holds one byte, a Changed.
const (
	ChangeBefore uint32 = 1 << 31
	ChangeKind   uint32 = 1<<32 - 1
)

// The columns of a change of a CQL table that is kept. Each holds a row in its stored form, with timestamps, times to
// live and all: as it is after the change, as it was before, and the deletions of ranges.
const (
	ChangeRowAfter uint32 = ChangeKind - 1 - iota
	ChangeRowBefore
	ChangeDeletions
)

// Changed says what a change has done to a row.
type Changed byte

// The kinds of changes. The numbers are stored: never change one.
const (
	Created  Changed = 1
	Replaced Changed = 2
	Deleted  Changed = 3
	// RangesDeleted says that ranges of rows of a logical partition were deleted, or all of it, with the static row.
	RangesDeleted Changed = 4
)

// Op is one operand of a mutation.
type Op struct {
	Kind OpKind
	// Clustering is the concatenation of the clustering columns' key forms; empty for a table without clustering
	// columns and for the header. An index entry of a static column has none either.
	Clustering []byte
	// Operand is an encoded row (see row.Builder); empty for OpIndex, and for an OpChange that keeps nothing.
	Operand []byte
	// Index and Value are for OpIndex: the index id and the indexed value in wire form. Of an OpChange they are its
	// flags, and the stamp of the row's entry in the change log, 8 bytes, which goes; empty if there is none.
	Index uint32
	Value []byte
}

// Mutation changes one logical partition, atomically.
type Mutation struct {
	Table uint32
	// Token is the key's place on the ring, or the first half of it in a table on the wide ring; Low is the second
	// half, 0 in others.
	Token token.Token
	Low   uint64
	// Key is the serialized partition key.
	Key []byte
	Ops []Op
	// SchemaVersion is schema.Revision as the coordinator saw it.
	SchemaVersion uint64
	// Epoch is the epoch of the physical partition the coordinator believes in.
	Epoch uint64
	// Dedupe identifies the command for exactly-once application; the zero value asks for none.
	Dedupe DedupeID
	// Retried says that an earlier attempt with this id may have been carried out. Sent says that none can have been,
	// and that the command came from another node, so that it may be here long after it was sent, and after later
	// attempts. Known goes with both: the newest value of partition.Host.DedupeEpoch that the node that is asked had
	// told before the first attempt that may have been carried out, 0 if it had told none.
	Retried, Sent bool
	Known         uint64
	// Timestamp is the stamp the leader gave to the operands that came Unstamped; 0 before that.
	Timestamp int64
	// Claimant is who asks, where what the partition may take is bounded; the zero value is nobody in particular. It is
	// in no log.
	Claimant share.Claimant
}

// DedupeID names a command of a coordinator: (node, sequence) is used once.
type DedupeID = keys.DedupeID

// Position is where the key stands in its table.
func (m *Mutation) Position() keys.Position {
	return keys.Position{Ring: m.Token.Position(), Low: m.Low, Key: m.Key}
}

// Slice is a half-open interval [Start, End) of clustering keys, compared as bytes. An empty Start begins at the first
// row; a nil End is unbounded. Because clustering keys are concatenations of order-preserving forms, every CQL bound,
// inclusive or exclusive, on any prefix of the clustering columns is such an interval.
type Slice struct{ Start, End []byte }

// Read asks for rows in order: partitions by (token, key), rows by clustering key.
type Read struct {
	Table uint32
	// Key selects one logical partition; nil selects Range.
	Key   []byte
	Token token.Token
	Low   uint64 // as in Mutation
	// Range selects the partitions of an interval of tokens. It is used when Key is nil; the zero Range is the whole
	// ring. On the wide ring it is one of first halves of places.
	Range token.Range
	// After resumes a read of a Range after this position: strictly after the row (Key, Clustering) of that partition,
	// or after the whole partition if AfterPartition is set. AfterToken and AfterLow are the key's place on the ring.
	AfterKey        []byte
	AfterToken      token.Token
	AfterLow        uint64
	AfterClustering []byte
	AfterPartition  bool
	// Slices restricts rows in every partition: sorted, disjoint. Empty means all rows. With Reversed, rows come in
	// descending order (slices are still given ascending).
	Slices   []Slice
	Reversed bool
	// Statics asks for static cells; NoRows asks for nothing but partitions. With either, the visitor's Partition is
	// called for every partition that has a live row in Slices or a live static cell, otherwise for those with a live
	// row.
	Statics bool
	NoRows  bool
	// Index, if not nil, visits only rows that have an entry with this value; the caller checks the rows themselves.
	Index *IndexLookup
	// Changes, if not nil, reads the change log instead of rows. Clustering keys of what is found, and AfterClustering,
	// have the 8 bytes of the stamp before them.
	Changes *ChangesRead
	// Fold, if not nil, asks for something to be made of the rows: the visitor is a Folder, and may be given that
	// instead.
	Fold *Fold
	// Limit bounds how many rows the caller can use at most, 0 = not known. A hint: the visitor decides.
	Limit int
	// Now is the second since the epoch at which expiry is judged.
	Now int64
	// Dropped says which cells are to be treated as absent, ascending by columns; nearly always empty.
	Dropped []cqltype.Dropped
	Level   dberr.Consistency
	Epoch   uint64
	// Continued says that the command goes on with what another one of the same request has begun, in the same physical
	// partition: what a read costs to begin with was paid.
	Continued bool
	// Owed and Wanted are request units, as parts of ru.Unit, that a follower on the sender's node asks the leader for:
	// what it has spent already, and what it would like to be lent.
	Owed, Wanted int64
	// Peek says that the read is only to learn what another one would cost. It has a price of its own.
	Peek bool
	// Claimant is who asks, as in Mutation. NoWait says that whoever asks cannot wait until the partition may take
	// more; it is not sent to other nodes.
	Claimant share.Claimant
	NoWait   bool
	// Deadline ends the read where that is earlier than the time of a read; zero: nothing else does. It is not sent to
	// other nodes: the time that an attempt has is.
	Deadline time.Time
}

// Position is where Key stands in the table.
func (c *Read) Position() keys.Position {
	return keys.Position{Ring: c.Token.Position(), Low: c.Low, Key: c.Key}
}

// ChangesRead says which changes a Read looks for: those of logical partitions in order of their commits.
type ChangesRead struct {
	// After and Upto bound the stamps of changes, in microseconds: After is left out, Upto is not.
	After, Upto int64
	// Kept looks for the changes that are kept, with all images; otherwise the rows of which the last change is among
	// those are passed on as they are, once.
	Kept bool
	// Horizon asks for no changes, but for the horizon of each physical partition: all commits up to this stamp are
	// applied there, and later ones have higher stamps. It comes as a row without cells, whose clustering key is the
	// stamp in 8 bytes, of a partition at the position from which on it holds.
	Horizon bool
}

// IndexLookup names an index, and a value in wire form: rows come in the order of the table. Instead of the value it
// may have one of the others.
type IndexLookup struct {
	Index uint32
	Value []byte
	// Any, if not empty, are alternatives: rows that have entries with all values of one of them, each row once, in the
	// order of the table.
	Any [][][]byte
	// End, if not nil, makes it the values from Value on that are below End. Rows come in order of their values, with
	// Read.Reversed from the largest one on, and those with one value in the order of the table. Each comes with the
	// value that it has now, and once. It is for indexes in whose entries values are in order. First, if it is set, is
	// a value apart: one row that has it is passed on before the others, if there is one.
	End, First []byte
	// After is the value of the row that Read.AfterKey and Read.AfterClustering name, in a read of such a range.
	After []byte
	// All, if not empty, are conditions of one or several indexes, those of equal values first: rows that meet all of
	// them, each row once, in the order of the table. Others may come, too: the caller checks rows in any case.
	All []IndexTerm
	// Near, if not nil, is a vector in wire form: rows come that are near to it, in the order of what their entries
	// tell, those that may be the nearest first. When all of the lists are looked at that are looked at first, those of
	// the next lists follow in the same way. Generation is that of the lists. Nearest, if it is not 0, is how many rows
	// are wanted: the more, the more lists are looked at first.
	Near       []byte
	Generation uint32
	Nearest    int
}

// IndexTerm is that a row has an entry in an index, with Value or, if End is not nil, with one from Value on that is
// below End. It is for indexes in whose entries values are in order.
type IndexTerm struct {
	Index      uint32
	Value, End []byte
	// Whole says that entries stand for all rows of their logical partitions.
	Whole bool
}

// Ordered reports whether rows come in the order of their values.
func (l *IndexLookup) Ordered() bool { return l != nil && l.End != nil }

// Step is a visitor's answer: what to read next.
type Step uint8

// The steps.
const (
	More Step = iota
	NextPartition
	Stop
	// Enough is the end of what is wanted of the physical partition at hand, in a read of what is near to a vector.
	Enough
)

// Looker is a Visitor that hears of each entry of an index before the row that it leads to, which may not be there.
type Looker interface {
	Entry(clustering []byte) error
}

// Visitor receives what a Read finds. Everything passed is valid only during the call.
type Visitor interface {
	// Partition begins a logical partition. static is nil when the read did not ask for statics or there are none.
	Partition(tok token.Token, key []byte, static *row.Row) (Step, error)
	// Row is one live row.
	Row(clustering []byte, r *row.Row) (Step, error)
}

// Walker is a Visitor that also hears how far the read of a range has come where there is nothing for it: a table may
// have millions of partitions that are deleted. So it can stop there, and go on from there with another command.
type Walker interface {
	Visitor
	// Passed says that the read has looked at so many more keys since it had something to pass on, or since the last
	// call, and that all partitions up to the end of this one are read. It is called once in a thousand keys or so.
	Passed(tok token.Token, key []byte, looked int) (Step, error)
}

// Passed tells a visitor how far a read has come, if it is a Walker.
func Passed(v Visitor, tok token.Token, key []byte, looked int) (Step, error) {
	if w, ok := v.(Walker); ok {
		return w.Passed(tok, key, looked)
	}
	return More, nil
}

// Sweep removes what nobody can see any more: each key is re-read when the sweep is applied and rewritten or deleted if
// its tombstones and expired cells are older than Horizon (seconds since the epoch).
type Sweep struct {
	Table   uint32
	Keys    [][]byte
	Horizon int64
	// Dropped selects the cells of dropped columns that are removed regardless of their age, in ascending order of
	// columns.
	Dropped []cqltype.Dropped
	// Expired selects the rows with a lifetime that are removed regardless of the horizon. It requires feature level 8.
	Expired row.Expired
}
