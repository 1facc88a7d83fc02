// SPDX-License-Identifier: Apache-2.0

// Package cqltype implements the CQL type system on wire bytes. Everywhere in the database, a value is represented by
// the bytes that a client sends or receives. This package validates such bytes, compares them, and converts them to
// literals, JSON, and order-preserving keys.
//
// A nil slice is CQL's null. An empty, non-nil slice is the empty value that most types allow. Collections, tuples,
// and UDTs use the encoding of protocol v3 and later, with 32-bit lengths. A Type is immutable and can be shared. The
// package does not depend on tables, statements, or storage. Start reading at Type.
package cqltype

// Kind is the kind of a type. The zero Kind is invalid. The methods of Kind contain the rules for values without
// components. The methods of Type add the rules for values with components.
type Kind uint8

// The native kinds precede the composed kinds.
const (
	Ascii Kind = iota + 1
	Bigint
	Blob
	Boolean
	Counter
	Date
	Decimal
	Double
	Duration
	Float
	Inet
	Int
	Smallint
	Text
	Time
	Timestamp
	Timeuuid
	Tinyint
	UUID
	Varint

	List
	Set
	Map
	Tuple
	UDT
	// Custom is a Java class without a CQL name. Its values are opaque bytes, and Name is the class name.
	Custom
	// Empty is the type of an expression without a value (Cassandra's EmptyType).
	Empty
	// Vector is a sequence of Type.Dimension elements. It is the last kind because commands contain the numbers of
	// kinds.
	Vector
)

// IsNative reports whether types of the kind have no components and are not custom.
func (k Kind) IsNative() bool { return k >= Ascii && k <= Varint }

// Type describes a CQL type. Callers must compare types with Equal instead of by pointer.
type Type struct {
	Kind Kind
	// Frozen is true for a collection or UDT that was declared frozen or is inside a frozen type. Frozen is always
	// true for tuples, and false for native types.
	Frozen bool
	// Elems holds the element type of a list, set, or vector, or the key and value types of a map. For a tuple or a
	// UDT, it holds the types of the components or fields.
	Elems []*Type
	// Keyspace and Name identify a UDT. For the kind Custom, Name is the Java class.
	Keyspace, Name string
	// Fields holds the field names of a UDT, parallel to Elems.
	Fields []string
	// Dimension is the number of elements of a vector, or 0 for other types.
	Dimension int
}
