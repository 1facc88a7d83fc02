// SPDX-License-Identifier: Apache-2.0

package parser

// Insert is the statement INSERT INTO .. VALUES. If JSON is not nil, Insert is the statement INSERT INTO .. JSON. The
// parser does not check whether the numbers of columns and values are equal.
type Insert struct {
	Table   QualifiedName
	Columns []Ident
	Values  []Term
	// JSON is the value of INSERT .. JSON. It is a string *Constant or a *Marker.
	JSON Term
	// DefaultUnset reports whether the statement contains DEFAULT UNSET. With DEFAULT UNSET, columns that the JSON does
	// not contain remain unchanged. Otherwise, these columns are set to null.
	DefaultUnset bool
	IfNotExists  bool
	Using        Using
}

// Update is the UPDATE statement.
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

// These are the kinds of assignments.
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

// Delete is the DELETE statement.
type Delete struct {
	// If the statement deletes rows, ranges, or partitions, Targets is empty.
	Targets []DeleteTarget
	Table   QualifiedName
	// Using never contains a TTL.
	Using      Using
	Where      []Relation
	IfExists   bool
	Conditions []Condition
}

// DeleteTarget is the column, the element c[Key], or the field c.Field that a DELETE deletes.
type DeleteTarget struct {
	Column Ident
	Key    Term
	Field  Ident
}

// BatchKind is the kind of a batch.
type BatchKind uint8

// These are the kinds of batches. The values are the numbers that the protocol uses.
const (
	Logged BatchKind = iota
	Unlogged
	Counter
)

// Batch is the statement BEGIN BATCH .. APPLY BATCH. The elements of Statements are *Insert, *Update, and *Delete.
type Batch struct {
	Kind       BatchKind
	Using      Using
	Statements []Statement
}

// Truncate is the TRUNCATE statement.
type Truncate struct{ Table QualifiedName }

func (*Insert) statement()   {}
func (*Update) statement()   {}
func (*Delete) statement()   {}
func (*Batch) statement()    {}
func (*Truncate) statement() {}
