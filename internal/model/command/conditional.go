// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Conditional is a mutation that depends on stored data. It represents IF conditions, counters, transactions, and list
// operations that address an element by its index. Under the latch of the logical partition, the leader reads Rows,
// checks Conditions, and turns Updates into operands. It commits these operands and Mutation.Ops as one mutation. It
// writes nothing unless all conditions hold.
type Conditional struct {
	Mutation Mutation
	// Serial is the serial consistency level of a lightweight transaction, or 0 if the command has no conditions.
	Serial dberr.Consistency
	// Rows lists the rows that Conditions and Updates refer to by index. Each row is listed at most once.
	Rows       []RowRef
	Conditions []Condition
	Updates    []Update
	// First selects a row of the partition that the response shows if the conditions do not hold.
	First First
	// Program, if not nil, makes the command a transaction. The leader runs the program, which determines the writes.
	// Ops, Rows, Conditions, and Updates are then empty. The program is opaque in this package.
	Program []byte
	// Dry requests the cost of a transaction. The leader runs the program but discards its writes.
	Dry bool
	// MaxCharge is the maximum cost in ru.Units. If the cost would be higher, the leader writes nothing. The value 0
	// means no limit.
	MaxCharge int64
	// Log, if not nil, makes the leader add the changes to the change log. The leader knows the rows before and after
	// each change.
	Log *ChangeLog
	// Now is the time at which expiry is evaluated, in seconds since the epoch. A client can choose this time. Dropped
	// has the same meaning as in Read.
	Now     int64
	Dropped []cqltype.Dropped
	// Issued is the time at which the coordinator received the request, in seconds, according to the clocks of a
	// quorum. A leader without a dedupe record of the command compares Issued with its own clock. Issued is 0 if the
	// time is unknown. It is also 0 in commands from earlier builds.
	Issued int64
}

// ChangeLog configures how changes of a CQL table are logged.
type ChangeLog struct {
	// Keep is the number of seconds for which each change is kept with its images. If Keep is 0, only the time of each
	// row's last change is kept.
	Keep int64
}

// ChangeGrace is the number of seconds for which changes are kept in addition to ChangeLog.Keep. A reader that starts
// at the oldest change has this much time to finish.
const ChangeGrace = 3600

// First selects the row of the partition that the response to a rejected conditional shows.
type First uint8

// These are the values of First. FirstMarked skips rows without a row marker, which no INSERT created.
const (
	NoFirst First = iota
	FirstRow
	FirstMarked
)

// RowRef identifies a row of the mutation's partition, or its static row.
type RowRef struct {
	Static     bool
	Clustering []byte
}

// Operator compares a stored value with the value of the condition.
type Operator uint8

// These are the operators of a Condition. Exists and NotExists test the row. The other operators test a column or an
// element of a column.
const (
	Exists Operator = iota
	NotExists
	Equal
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	In
	Contains
	ContainsKey
)

// Condition is one term of an IF clause.
type Condition struct {
	// Row is an index into Conditional.Rows.
	Row      int
	Operator Operator
	// Column and Type describe the column. Type is nil for Exists and NotExists.
	Column uint32
	Type   *cqltype.Type
	// Element, if not nil, selects an element. It is the wire form of a map key, of an int index into a list, or of a
	// smallint field index of a UDT. The comparison then uses the element's type.
	Element []byte
	// Values holds one value (nil for null) or, for In, any number of values.
	Values [][]byte
}

// UpdateKind is the kind of an update whose effect depends on the stored row.
type UpdateKind uint8

// These are the kinds of Update.
const (
	CounterAdd   UpdateKind = iota // Args[0] = bigint delta
	ListSetAt                      // Args[0] = int index, Args[1] = value (nil deletes the element)
	ListDiscard                    // Args = values to remove
	ListDeleteAt                   // Args[0] = int index
	// ListPut adds elements whose paths are known. Args alternates paths and values. ListPut does not depend on stored
	// data, but later updates count the added elements in their indexes.
	ListPut
	// SumAdd adds to a number, or appends to a text that is not null. Args[0] is the addend. The other arguments are
	// the IDs, as ints, of the indexes that receive the sum. If an ID is followed by another int, the index receives
	// the sum's ordered form (cqltype.AppendKey), truncated to that number of bytes.
	SumAdd
)

// Update is a change that the leader resolves into operands. The operands get the timestamps of the mutation.
type Update struct {
	Row    int
	Kind   UpdateKind
	Column uint32
	Type   *cqltype.Type
	Args   [][]byte
	// Statement is the number of the statement in a batch. An update sees the row after the earlier updates of the
	// same statement, but before the changes of other statements. Counter updates see all changes.
	Statement int
	// Timestamp is the operand's timestamp, or row.Unstamped for the leader's timestamp, which counters always use. TTL
	// and Expiry have the same meaning as in row.Cell.
	Timestamp int64
	TTL       int32
	Expiry    int64
}

// FoundRow is a row with its clustering key.
type FoundRow struct {
	Clustering []byte
	Row        *row.Row
}

// CASResult is the outcome of a Conditional.
type CASResult struct {
	Applied bool
	// Found holds the state of the rows when the conditions were checked. It is parallel to Conditional.Rows and holds
	// nil for a row that did not exist. The rows are copies, which the caller may keep.
	Found []*row.Row
	// First is the row that Conditional.First selects, or nil if none exists or the conditions hold.
	First *FoundRow
	// Timestamp is the timestamp of the mutation if it was applied.
	Timestamp int64
	// Charge is the cost of the conditional in ru.Units.
	Charge int64
	// Result is the return value of a transaction's program, in the program's own format.
	Result []byte
}
