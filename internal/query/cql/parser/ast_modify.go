// SPDX-License-Identifier: Apache-2.0

package parser

// Insert is INSERT INTO .. VALUES, or INSERT INTO .. JSON if JSON is not nil. The numbers of columns and values may
// differ. The planner checks them.
type Insert struct {
	Table   QualifiedName
	Columns []Ident
	Values  []Term
	// JSON is the string *Constant or *Marker of INSERT .. JSON.
	JSON Term
	// DefaultUnset is DEFAULT UNSET: columns that the JSON does not contain remain unchanged. Without DEFAULT UNSET,
	// these columns become null.
	DefaultUnset bool
	IfNotExists  bool
	Using        Using
}

// Update is UPDATE.
type Update struct {
	Table       QualifiedName
	Using       Using
	Assignments []Assignment
	Where       []Relation
	IfExists    bool
	Conditions  []Condition
}

// AssignmentKind is the form of an assignment.
type AssignmentKind uint8

// The kinds of assignments.
const (
	// SetColumn is c = value.
	SetColumn AssignmentKind = iota + 1
	// AddTo is c = c + value, or c += value.
	AddTo
	// SubtractFrom is c = c - value, or c -= value.
	SubtractFrom
	// Prepend is c = value + c.
	Prepend
	// SetElement is c[Key] = value.
	SetElement
	// SetField is c.Field = value.
	SetField
)

// Assignment is one assignment of UPDATE .. SET.
type Assignment struct {
	Kind   AssignmentKind
	Column Ident
	Key    Term
	Field  Ident
	Value  Term
}

// Delete is DELETE.
type Delete struct {
	// Targets is empty if rows, ranges, or partitions are deleted.
	Targets []DeleteTarget
	Table   QualifiedName
	// Using has no TTL.
	Using      Using
	Where      []Relation
	IfExists   bool
	Conditions []Condition
}

// DeleteTarget is a column, an element c[Key], or a field c.Field to delete.
type DeleteTarget struct {
	Column Ident
	Key    Term
	Field  Ident
}

// BatchKind is the kind of a batch.
type BatchKind uint8

// The kinds of batches. Their values are the numbers in the protocol.
const (
	Logged BatchKind = iota
	Unlogged
	Counter
)

// Batch is BEGIN BATCH .. APPLY BATCH. Its statements are *Insert, *Update, and *Delete.
type Batch struct {
	Kind       BatchKind
	Using      Using
	Statements []Statement
}

// Truncate is TRUNCATE.
type Truncate struct{ Table QualifiedName }

func (*Insert) statement()   {}
func (*Update) statement()   {}
func (*Delete) statement()   {}
func (*Batch) statement()    {}
func (*Truncate) statement() {}
