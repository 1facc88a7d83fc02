// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Conditional is a mutation that depends on what is stored: IF conditions, counters, the list operations that address
// an element by its place, and transactions. The leader reads Rows under the latch of the logical partition, checks
// Conditions, turns Updates into operands, and commits Mutation.Ops and those operands as one mutation. Nothing is
// written unless all conditions hold.
type Conditional struct {
	Mutation Mutation
	// Serial is the serial consistency level of a lightweight transaction, and 0 when there are no conditions.
	Serial dberr.Consistency
	// Rows are the rows that Conditions and Updates refer to by number, each at most once.
	Rows       []RowRef
	Conditions []Condition
	Updates    []Update
	// First asks for a row of the partition, if the conditions do not hold, which the answer shows.
	First First
	// Program, if not nil, makes it a transaction: the leader runs the program, which says what is written. There are
	// no Ops, Rows, Conditions or Updates then. What it means is for those who wrote it and the leader's node to know.
	Program []byte
	// Dry asks what a transaction would cost: its program is run, and nothing of what it says is written.
	Dry bool
	// MaxCharge, in ru.Units, is what it may cost: if it would cost more nothing is done. 0 is no bound.
	MaxCharge int64
	// Log, if not nil, has what is changed entered in the change log, by the leader: it knows the rows before and
	// after.
	Log *ChangeLog
	// Now is the second at which expiry is judged, which a client may choose; Dropped as in Read.
	Now     int64
	Dropped []cqltype.Dropped
	// Issued is the second at which the coordinator received the request, by the clocks of a quorum. A leader that has
	// no record of the command compares it with its own clock. 0: it is not known, as in commands of earlier builds.
	Issued int64
}

// ChangeLog says how changes of a CQL table are logged.
type ChangeLog struct {
	// Keep is for how many seconds each change is kept with its images; 0 keeps only which row was changed last when.
	Keep int64
}

// ChangeGrace is for how many seconds more than Keep says changes are kept: a reader that begins with the oldest of
// them has that much time to come to the end.
const ChangeGrace = 3600

// First says which row of the partition answers a conditional that was refused.
type First uint8

// The choices. FirstMarked passes over rows that have no marker, those that no INSERT made.
const (
	NoFirst First = iota
	FirstRow
	FirstMarked
)

// RowRef names a row of the mutation's partition, or its static row.
type RowRef struct {
	Static     bool
	Clustering []byte
}

// Operator compares a stored value with the condition's.
type Operator uint8

// The operators of a Condition. Exists and NotExists look at the row; the others at a column or an element of it.
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
	// Column and Type describe the column. A nil Type belongs to Exists and NotExists.
	Column uint32
	Type   *cqltype.Type
	// Element, if not nil, selects an element of a map (wire form of the key), a list (wire form of an int index) or a
	// UDT (wire form of a smallint field index); the comparison is then with that element's type.
	Element []byte
	// Values holds one value (nil = null), any number for In.
	Values [][]byte
}

// UpdateKind is an update whose effect depends on the stored row.
type UpdateKind uint8

// The kinds.
const (
	CounterAdd   UpdateKind = iota // Args[0] = bigint delta
	ListSetAt                      // Args[0] = int index, Args[1] = value (nil deletes the element)
	ListDiscard                    // Args = values to remove
	ListDeleteAt                   // Args[0] = int index
	// ListPut adds elements whose paths are known: Args = path, value, path, value, ... It depends on nothing stored,
	// but the updates after it count places with them.
	ListPut
	// SumAdd adds to a number, or appends to a text, that is not null: Args[0] = what is added, the others = the ids of
	// the indexes that the sum is entered in, as ints. An id with another int after it has the ordered form of the sum
	// (cqltype.AppendKey), cut off at that many bytes.
	SumAdd
)

// Update is resolved by the leader into operands stamped like the rest of the mutation.
type Update struct {
	Row    int
	Kind   UpdateKind
	Column uint32
	Type   *cqltype.Type
	Args   [][]byte
	// Statement numbers the statements of a batch: an update sees the row as the updates before it in its own statement
	// leave it, but not what other statements do. Counters see all.
	Statement int
	// Timestamp is the operand's, row.Unstamped for the leader's stamp, which counters always get. TTL and Expiry as in
	// row.Cell.
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
	// Found holds, parallel to Conditional.Rows, the rows as they were when the conditions were checked; nil = the row
	// did not exist. They are copies the caller may keep.
	Found []*row.Row
	// First is the row that Conditional.First asks for, nil if there is none or the conditions hold.
	First *FoundRow
	// Timestamp is the stamp of the mutation if it was applied.
	Timestamp int64
	// Charge is what the conditional has cost, in ru.Units.
	Charge int64
	// Result is what the program of a transaction returned; its form is the program's.
	Result []byte
}
