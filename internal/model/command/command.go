// SPDX-License-Identifier: Apache-2.0

// Package command defines the commands that a coordinator sends to a replica, the responses, and their versioned
// encoding. The commands are Mutation, Conditional, Read, Sweep, and the Entry of a replica set's log.
//
// Guarantees:
//
//   - (CM1) A command contains all information that is required to apply it. The result does not depend on the clock,
//     schema catalog, or configuration of the replica, so the same log produces the same rows.
//   - (CM2) An encoded command includes its version. A decoder skips additions of a newer build or rejects them with
//     feature.ErrNewer. A decoder never misinterprets additions.
//
// Rows and keys are opaque bytes in this package. Packages row and cqltype encode them. Start reading at Mutation and
// at Read.
package command

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// OpKind is the place in a partition into which an operand is merged.
type OpKind uint8

// These are the kinds of Op.
const (
	// OpRow merges into the row with the key Op.Clustering.
	OpRow OpKind = iota
	// OpHeader merges into the partition header, which holds the static cells, the partition deletion, and the deleted
	// ranges.
	OpHeader
	// OpIndex records that the row may have Op.Value in index Op.Index. Index entries are hints. A reader checks the
	// row, and sweeps remove stale entries. Writing an entry therefore requires no read of the old value.
	OpIndex
	// OpChange adds the row to the change log at the mutation's timestamp. It requires feature level 4 (RFC 0024).
	OpChange
)

// These flags of an OpChange are stored in Op.Index.
const (
	// ChangeLatest keeps a log entry for the row in its current state. This flag means that the row was not deleted.
	ChangeLatest uint32 = 1 << iota
	// ChangeKept stores Op.Operand until it expires. The operand is a row that describes the change (see ChangeBefore).
	ChangeKept
	// ChangePointed marks a row that does not store the timestamp of its log entry. A separate key stores the
	// timestamp. This flag requires feature level 5. ChangeLatest and the previous timestamp determine whether an
	// entry exists. The row does not affect this decision.
	ChangePointed
	// ChangeRanges adds a deletion of row ranges, or of the whole partition, instead of a row. The entry is kept and
	// precedes the row changes of the same mutation.
	ChangeRanges
	changeFlags = ChangeLatest | ChangeKept | ChangePointed | ChangeRanges
)

// These column IDs encode a kept change of a container. The columns of the row after the change have their own IDs.
// The columns of the row before the change have the bit ChangeBefore set. ChangeKind holds a Changed in one byte.
const (
	ChangeBefore uint32 = 1 << 31
	ChangeKind   uint32 = 1<<32 - 1
)

// These column IDs encode a kept change of a CQL table. Each column holds a row in stored form, including timestamps
// and times to live. The columns hold the row after the change, the row before it, and the range deletions.
const (
	ChangeRowAfter uint32 = ChangeKind - 1 - iota
	ChangeRowBefore
	ChangeDeletions
)

// Changed is the effect of a change on a row.
type Changed byte

// These are the kinds of changes. The numbers are stored, so they must never change.
const (
	Created  Changed = 1
	Replaced Changed = 2
	Deleted  Changed = 3
	// RangesDeleted means that ranges of rows, or a whole logical partition including its static row, were deleted.
	RangesDeleted Changed = 4
)

// Op is one operand of a mutation.
type Op struct {
	Kind OpKind
	// Clustering is the concatenation of the clustering columns' key forms. Clustering is empty for the header, for a
	// table without clustering columns, and for an index entry of a static column.
	Clustering []byte
	// Operand is an encoded row (see row.Builder). Operand is empty for an OpIndex and for an OpChange that keeps
	// nothing.
	Operand []byte
	// In an OpIndex, Index is the index ID, and Value is the indexed value in wire form. In an OpChange, Index holds
	// the flags. Value holds the timestamp, in 8 bytes, of the log entry that the change removes from the row. Value
	// is empty if no such entry exists.
	Index uint32
	Value []byte
}

// Mutation changes one logical partition atomically.
type Mutation struct {
	Table uint32
	// Token is the key's ring position. In a table on the wide ring, it is the first half of the position, and Low is
	// the second half. Low is 0 in other tables.
	Token token.Token
	Low   uint64
	// Key is the serialized partition key.
	Key []byte
	Ops []Op
	// SchemaVersion is the schema.Revision that the coordinator used.
	SchemaVersion uint64
	// Epoch is the epoch that the coordinator expects the physical partition to have.
	Epoch uint64
	// Dedupe identifies the command for exactly-once application. The zero value disables deduplication.
	Dedupe DedupeID
	// Retried means that an earlier attempt with this ID may have been executed. Sent means that no earlier attempt
	// can have been executed, and that the command came from another node. A sent command can arrive late, and even
	// after later attempts. Known applies to both flags. It is the newest partition.Host.DedupeEpoch that the target
	// node had reported before the first attempt that may have been executed. It is 0 if the node had reported no
	// value.
	Retried, Sent bool
	Known         uint64
	// Timestamp is the timestamp that the leader assigned to the Unstamped operands. Timestamp is 0 before that.
	Timestamp int64
	// Principal is the user and connection charged for the command when throughput is limited. The zero value is an
	// anonymous principal. The log does not contain the principal.
	Principal fairshare.Principal
}

// DedupeID identifies a command of a coordinator. Each pair of node and sequence is used only once.
type DedupeID = keys.DedupeID

// Position returns the key's position in its table.
func (m *Mutation) Position() keys.Position {
	return keys.Position{Ring: m.Token.Position(), Low: m.Low, Key: m.Key}
}

// Slice is a half-open interval [Start, End) of clustering keys. The keys are compared as bytes. An empty Start begins
// at the first row, and a nil End is unbounded. Clustering keys are concatenations of order-preserving forms. Every
// CQL bound on a prefix of the clustering columns is therefore such an interval, whether it is inclusive or exclusive.
type Slice struct{ Start, End []byte }

// Read requests rows in order. Partitions are ordered by token and key, and rows are ordered by clustering key.
type Read struct {
	Table uint32
	// Key selects one logical partition. A nil Key selects Range.
	Key   []byte
	Token token.Token
	Low   uint64 // second half of the position; see Mutation
	// Range selects the partitions of a token interval. Range is used if Key is nil. The zero Range is the whole ring.
	// On the wide ring, Range is an interval of the first halves of positions.
	Range token.Range
	Resume
	// Slices restricts the rows in every partition. The slices are sorted and disjoint. If Slices is empty, all rows
	// are selected. If Reversed is set, rows are returned in descending order. Slices is still in ascending order.
	Slices   []Slice
	Reversed bool
	// Statics requests static cells. NoRows requests partitions without rows. If either flag is set, the visitor's
	// Partition is called for every partition that has a live row in Slices or a live static cell. Otherwise,
	// Partition is called for every partition that has a live row.
	Statics bool
	NoRows  bool
	// Index, if not nil, restricts the read to rows that have a matching index entry. The caller must check the rows.
	Index *IndexLookup
	// Changes, if not nil, reads the change log instead of rows. The clustering keys of the results, and
	// AfterClustering, start with the timestamp in 8 bytes.
	Changes *ChangesRead
	// Pushdown, if not nil, lets the replica process the rows and return the result. The visitor must be a
	// PushdownVisitor. It receives either results or rows.
	Pushdown *Pushdown
	// Limit is the maximum number of rows that the caller can use, or 0 if it is unknown. It is a hint, because the
	// visitor decides when to stop.
	Limit int
	// Now is the time at which expiry is evaluated, in seconds since the epoch.
	Now int64
	// Dropped lists the cells that are treated as absent, in ascending order of columns. Dropped is usually empty.
	Dropped []cqltype.Dropped
	Level   dberr.Consistency
	Epoch   uint64
	// Continued means that the command continues another command of the same request in the same physical partition. In
	// this case, the base price of the read has already been charged.
	Continued bool
	// Owed and Wanted are request units, in fractions of ru.Unit, that a follower on the sender's node reports to the
	// leader. Owed has already been spent. Wanted is the amount that the follower would like to borrow.
	Owed, Wanted int64
	// Peek means that the read only estimates the cost of another read. It has its own price.
	Peek bool
	// Principal has the same meaning as in Mutation. NoWait means that the read must not wait for throughput to become
	// available. The flag is not sent to other nodes.
	Principal fairshare.Principal
	NoWait    bool
	// Deadline ends the read if it is earlier than the read timeout. The zero value sets no deadline. The deadline is
	// not sent to other nodes, which limit each attempt instead.
	Deadline time.Time
}

// Resume is the position at which a read of a Range continues. If AfterKey is nil, the read starts at the beginning.
// Otherwise, the read continues after the row (AfterKey, AfterClustering), or after the whole partition if
// AfterPartition is set. AfterToken and AfterLow are the key's ring position.
type Resume struct {
	AfterKey        []byte
	AfterToken      token.Token
	AfterLow        uint64
	AfterClustering []byte
	AfterPartition  bool
}

// Position returns Key's position in the table.
func (c *Read) Position() keys.Position {
	return keys.Position{Ring: c.Token.Position(), Low: c.Low, Key: c.Key}
}

// ChangesRead selects the changes that a Read returns. Within a logical partition, changes are in commit order.
type ChangesRead struct {
	// After (exclusive) and Upto (inclusive) bound the timestamps of changes, in microseconds.
	After, Upto int64
	// Kept selects the kept changes with all images. Otherwise, each row whose last change is in the interval is
	// returned once, in its current state.
	Kept bool
	// Horizon requests the horizon of each physical partition instead of changes. The partition has applied all
	// commits up to the horizon, and later commits have higher timestamps. The horizon is returned as a row without
	// cells. The clustering key of the row is the horizon's timestamp in 8 bytes. Its partition key is the position at
	// which the horizon's validity begins.
	Horizon bool
}

// TermMark is the first byte of the index values that are terms of texts. An item has many of these values.
const TermMark = 0x7f

// IndexLookup is an index and a value in wire form. Rows are returned in table order. Any, End, All, or Near can
// replace the single value.
type IndexLookup struct {
	Index uint32
	Value []byte
	// Any, if not empty, lists alternatives. A row matches an alternative if it has entries for all values of the
	// alternative. Each row is returned once, in table order.
	Any [][][]byte
	// End, if not nil, selects the values in [Value, End). Rows are returned in the order of their values, or in
	// descending order if Read.Reversed is set. Rows with equal values are returned in table order. Each row is
	// returned once, with its current value. End requires an index whose entries are ordered by value. First, if set,
	// is a separate value. If rows have this value, one of these rows is returned before all other rows.
	End, First []byte
	// In a read of a value range, After is the value of the row that Read.AfterKey and Read.AfterClustering identify.
	After []byte
	// All, if not empty, lists conditions on one or more indexes. Equality conditions come first. Each row that meets
	// all conditions is returned once, in table order. The read can also return other rows, so the caller must check
	// the rows.
	All []IndexTerm
	// Near, if not nil, is a vector in wire form. Rows near the vector are returned in the order that their index
	// entries indicate, with the most promising rows first. After the first set of lists is exhausted, the rows of the
	// next lists follow in the same way. Generation is the generation of the lists. Nearest is the number of wanted
	// rows, or 0. A higher number widens the first set of lists.
	Vector     []byte
	Generation uint32
	Nearest    int
}

// IndexTerm is the condition that a row has an index entry with Value or, if End is not nil, with a value in [Value,
// End). It requires an index whose entries are ordered by value.
type IndexTerm struct {
	Index      uint32
	Value, End []byte
	// Whole means that an entry represents all rows of its logical partition.
	Whole bool
}

// Ordered reports whether rows are returned in the order of their values.
func (l *IndexLookup) Ordered() bool { return l != nil && l.End != nil }

// Step is a visitor's decision on how the read continues.
type Step uint8

// These are the steps.
const (
	More Step = iota
	NextPartition
	Stop
	// Enough ends the read of the current physical partition in a vector search.
	Enough
)

// EntryVisitor is a Visitor that receives each index entry before the read looks up the corresponding row.
type EntryVisitor interface {
	Entry(clustering []byte) error
}

// Visitor receives the results of a Read. All arguments are valid only during the call.
type Visitor interface {
	// Partition begins a logical partition. static is nil if the read did not request static cells or if the partition
	// has none.
	Partition(tok token.Token, key []byte, static *row.Row) (Step, error)
	// Row receives one live row.
	Row(clustering []byte, r *row.Row) (Step, error)
}

// ProgressVisitor is a Visitor that also receives the progress of a range read that finds no rows. A table may contain
// millions of deleted partitions. The visitor can stop the read in such a series of partitions, and another command
// can resume it.
type ProgressVisitor interface {
	Visitor
	// Passed reports the number of keys examined since the last result or the last call. All partitions up to the end
	// of this partition have been read. Passed is called about once per thousand keys.
	Passed(tok token.Token, key []byte, looked int) (Step, error)
}

// Passed notifies v of the progress of a read if v is a ProgressVisitor.
func Passed(v Visitor, tok token.Token, key []byte, looked int) (Step, error) {
	if w, ok := v.(ProgressVisitor); ok {
		return w.Passed(tok, key, looked)
	}
	return More, nil
}

// Sweep removes data that no reader can see. When a sweep is applied, each key is read again. The key is rewritten or
// deleted if its tombstones and expired cells are older than Horizon. Horizon is in seconds since the epoch.
type Sweep struct {
	Table   uint32
	Keys    [][]byte
	Horizon int64
	// Dropped selects the cells of dropped columns that are removed regardless of their age. The list is in ascending
	// order of columns.
	Dropped []cqltype.Dropped
	// Expired selects the rows with a lifetime that are removed regardless of Horizon. Expired requires feature level
	// 8.
	Expired row.Expired
}
