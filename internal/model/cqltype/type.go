// SPDX-License-Identifier: Apache-2.0

// Package cqltype is the CQL type system over wire bytes: a value is, everywhere in the database, the bytes that a
// client sent or will receive, and this package is what can be said of such bytes: whether they are valid for a type,
// how two of them compare, what their literal and JSON forms are, and what order-preserving key form they have.
//
// Conventions: nil is CQL's null; an empty, non-nil slice is the empty value that most types admit. Collections, tuples
// and UDTs are in the encoding of protocol v3 and later (32-bit lengths). A Type is immutable and may be shared.
// The package knows nothing of tables, statements or storage. Start at Type.
package cqltype

// Kind is the family of a type. The zero Kind is invalid.
type Kind uint8

// The native kinds, then the composed ones.
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
	// Custom is a Java class that has no CQL name; its values are opaque bytes. Name holds the class.
	Custom
	// Empty is the type of an expression that has no value yet (Cassandra's EmptyType).
	Empty
	// Vector is a sequence of Type.Dimension elements. Its kind comes last because kinds are numbers in commands.
	Vector
)

// Type describes a CQL type. Types are compared with Equal, never by pointer.
type Type struct {
	Kind Kind
	// Frozen is true for a collection or UDT that was declared frozen, or stands inside something frozen. Tuples are
	// always frozen and carry Frozen = true. Native types carry false.
	Frozen bool
	// Elems holds the element type of a list, set or vector, key and value of a map, the components of a tuple, the
	// field types of a UDT.
	Elems []*Type
	// Keyspace and Name identify a UDT; for Custom, Name is the Java class.
	Keyspace, Name string
	// Fields holds the field names of a UDT, parallel to Elems.
	Fields []string
	// Dimension is how many elements a vector has, 0 for other types.
	Dimension int
}
