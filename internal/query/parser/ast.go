// SPDX-License-Identifier: Apache-2.0

package parser

// Statement is a parsed CQL statement: one of the pointer types of this package named after the statement.
type Statement interface {
	// String prints the statement as CQL that parses back to an equal tree.
	String() string
	statement()
}

// Ident is an identifier. Name is what it means: folded to lower case unless it was quoted, without quotes.
type Ident struct {
	Name   string
	Quoted bool
}

// QualifiedName is a name with an optional keyspace (Keyspace.Name is empty when it was not given).
type QualifiedName struct {
	Keyspace Ident
	Name     Ident
}

// HasKeyspace reports whether the name was written with a keyspace.
func (q QualifiedName) HasKeyspace() bool { return q.Keyspace.Name != "" }

// BindMarker describes one bind marker of a statement, in the order of appearance.
type BindMarker struct {
	// Name is the name of a `:name` marker, empty for `?`. A name that occurs twice makes two markers.
	Name string
}

// TypeKind tells how a type was written.
type TypeKind uint8

// The ways to write a type.
const (
	// NativeType is a native type by its CQL name in lower case (int, text, varchar..).
	NativeType TypeKind = iota + 1
	// ListType, SetType and MapType are the collections; Params holds one or two types.
	ListType
	SetType
	MapType
	// TupleType holds its components in Params.
	TupleType
	// VectorType is vector<Params[0], Dimension> of Cassandra 5.0.
	VectorType
	// UserType is a user-defined type (or an unknown word) by User.
	UserType
	// CustomType is a Java class name given as a string, in Name.
	CustomType
)

// TypeName is a type as written. It is not resolved: a UserType may not exist.
type TypeName struct {
	Kind TypeKind
	// Frozen is true if this very type was wrapped in frozen<>. Nested types of a frozen one do not inherit it here.
	Frozen    bool
	Name      string
	User      QualifiedName
	Params    []*TypeName
	Dimension int
}

// Term is an expression: a value in a WHERE, VALUES or SET clause, or a selector in a SELECT clause (which admits more:
// columns, fields, elements, casts).
type Term interface {
	term()
}

// ConstantKind is the lexical family of a constant, as in Cassandra's messages.
type ConstantKind uint8

// The kinds of constants.
const (
	StringConstant ConstantKind = iota + 1
	IntegerConstant
	FloatConstant
	BooleanConstant
	UUIDConstant
	HexConstant
	DurationConstant
)

var constantKindNames = [...]string{
	StringConstant: "STRING", IntegerConstant: "INTEGER", FloatConstant: "FLOAT", BooleanConstant: "BOOLEAN",
	UUIDConstant: "UUID", HexConstant: "HEX", DurationConstant: "DURATION",
}

// String returns Cassandra's name of the kind, as in "Invalid STRING constant".
func (k ConstantKind) String() string {
	if int(k) < len(constantKindNames) {
		return constantKindNames[k]
	}
	return ""
}

type (
	// Constant is a literal. Text is the contents of a string without quotes and escapes, or the literal as written
	// (hex with its 0x, a negative number with its sign); booleans are in lower case, NaN and Infinity in that
	// spelling.
	Constant struct {
		Kind ConstantKind
		Text string
	}
	// Null is the word null.
	Null struct{}
	// Marker is a bind marker; Index counts from 0 in order of appearance, Name is empty for `?`.
	Marker struct {
		Index int
		Name  string
	}
	// FunctionCall calls a function, token() included. count(*) is CountRows.
	FunctionCall struct {
		Name QualifiedName
		Args []Term
	}
	// TypeHint is (type)term: it tells the type and converts nothing.
	TypeHint struct {
		Type *TypeName
		Term Term
	}
	// Arithmetic is Left Op Right with Op one of + - * / %.
	Arithmetic struct {
		Op    byte
		Left  Term
		Right Term
	}
	// Negate is unary minus before anything but a number (a negative number is a Constant).
	Negate struct{ Term Term }
	// ListLiteral is [a, b].
	ListLiteral struct{ Elems []Term }
	// SetLiteral is {a, b}. The text {} is a SetLiteral without elements, whatever type it will get.
	SetLiteral struct{ Elems []Term }
	// MapLiteral is {k: v}. In a SELECT clause a user-defined type literal is written the same way and is a MapLiteral
	// whose keys are *Column.
	MapLiteral struct{ Entries []MapEntry }
	// UDTLiteral is {field: value} outside a SELECT clause.
	UDTLiteral struct{ Fields []FieldValue }
	// TupleLiteral is (a, b). Outside a SELECT clause (a) is a tuple of one, or a in parentheses
	// where no tuple is wanted.
	TupleLiteral struct{ Elems []Term }
)

// MapEntry is one entry of a MapLiteral.
type MapEntry struct{ Key, Value Term }

// FieldValue is one field of a UDTLiteral.
type FieldValue struct {
	Name  Ident
	Value Term
}

// The terms that occur in a SELECT clause only.
type (
	// Column is a column by its name.
	Column struct{ Name Ident }
	// Paren is a parenthesised selector; it groups and means nothing else.
	Paren struct{ Term Term }
	// CountRows is count(*).
	CountRows struct{}
	// CellMeta is writetime(x), maxwritetime(x) or ttl(x); Arg is a Column or an element, slice or field of one.
	CellMeta struct {
		Kind CellMetaKind
		Arg  Term
	}
	// Cast is CAST(term AS type).
	Cast struct {
		Term Term
		Type *TypeName
	}
	// Field is term.name.
	Field struct {
		Term Term
		Name Ident
	}
	// Element is term[key].
	Element struct{ Term, Key Term }
	// Slice is term[from..to]; an open end is nil, not both are.
	Slice struct{ Term, From, To Term }
)

// CellMetaKind says what a CellMeta asks for.
type CellMetaKind uint8

// The kinds of CellMeta.
const (
	WriteTime CellMetaKind = iota + 1
	MaxWriteTime
	TTL
)

func (*Constant) term()     {}
func (*Null) term()         {}
func (*Marker) term()       {}
func (*FunctionCall) term() {}
func (*TypeHint) term()     {}
func (*Arithmetic) term()   {}
func (*Negate) term()       {}
func (*ListLiteral) term()  {}
func (*SetLiteral) term()   {}
func (*MapLiteral) term()   {}
func (*UDTLiteral) term()   {}
func (*TupleLiteral) term() {}
func (*Column) term()       {}
func (*Paren) term()        {}
func (*CountRows) term()    {}
func (*CellMeta) term()     {}
func (*Cast) term()         {}
func (*Field) term()        {}
func (*Element) term()      {}
func (*Slice) term()        {}

// Operator is the operator of a relation or condition.
type Operator uint8

// The operators.
const (
	Equal Operator = iota + 1
	Less
	LessEqual
	Greater
	GreaterEqual
	NotEqual
	In
	Contains
	ContainsKey
	Like
	IsNotNull
	IsNull
)

var operatorNames = [...]string{
	Equal: "=", Less: "<", LessEqual: "<=", Greater: ">", GreaterEqual: ">=", NotEqual: "!=", In: "IN",
	Contains: "CONTAINS", ContainsKey: "CONTAINS KEY", Like: "LIKE", IsNotNull: "IS NOT NULL", IsNull: "IS NULL",
}

// String returns the operator as Cassandra prints it.
func (o Operator) String() string {
	if int(o) < len(operatorNames) {
		return operatorNames[o]
	}
	return ""
}

// RelationKind is the form of a relation's left side.
type RelationKind uint8

// The kinds of relations.
const (
	// SingleColumn is `c op value` or `c[key] op value`.
	SingleColumn RelationKind = iota + 1
	// MultiColumn is `(a, b) op value`.
	MultiColumn
	// TokenRelation is `token(a, b) op value`.
	TokenRelation
	// ChangeFeedRelation is `cosmos_changefeed_start_time() op value`, or of `cosmos_changefeed_mode()`; its column is
	// the name of the function.
	ChangeFeedRelation
)

// Relation is one relation of a WHERE clause; relations are joined by AND.
type Relation struct {
	Kind    RelationKind
	Columns []Ident
	// Key is the element of `c[key] op value`, else nil.
	Key Term
	Op  Operator
	// Value is the right side. It is nil for IsNotNull and for IN with a list.
	Value Term
	// Values is the list of IN (..), perhaps empty; nil when IN takes a single marker (then Value is a *Marker). In a
	// MultiColumn relation all are *TupleLiteral or all are *Marker.
	Values []Term
}

// Condition is one condition of an IF clause; conditions are joined by AND.
type Condition struct {
	Column Ident
	// Key is the element of `c[key] op value`, else nil; Field the name of `c.field op value`, else empty.
	Key   Term
	Field Ident
	Op    Operator
	// Value and Values are as in Relation.
	Value  Term
	Values []Term
}

// Using holds the USING clause of a modification; a part not given is nil. A value is an integer *Constant or a
// *Marker. Where a part is given twice, the last counts, as in Cassandra; but a marker may not be overridden.
type Using struct {
	Timestamp Term
	TTL       Term
	// Timeout bounds the request: a *Constant or a *Marker. It is an extension of ScyllaDB.
	Timeout Term
	// TTLFirst tells that TTL was written before TIMESTAMP, and TimeoutAfter how many parts were written before
	// TIMEOUT. They only keep the order of markers.
	TTLFirst     bool
	TimeoutAfter int
}
