// SPDX-License-Identifier: Apache-2.0

package parser

// Statement is a parsed CQL statement: one of the pointer types of this package named after the statement.
type Statement interface {
	// String prints the statement as CQL. Parsing the result yields an equal tree.
	String() string
	statement()
}

// Ident is an identifier. Name is its normalized form: without quotes, and in lower case unless it was quoted.
type Ident struct {
	Name   string
	Quoted bool
}

// QualifiedName is a name with an optional keyspace. Keyspace.Name is empty if the statement does not specify a
// keyspace.
type QualifiedName struct {
	Keyspace Ident
	Name     Ident
}

// HasKeyspace reports whether the statement specifies a keyspace.
func (q QualifiedName) HasKeyspace() bool { return q.Keyspace.Name != "" }

// BindMarker describes one bind marker of a statement, in order of appearance.
type BindMarker struct {
	// Name is the name of a `:name` marker, or empty for `?`. Each occurrence of a name is a separate marker.
	Name string
}

// TypeKind is the syntactic form of a type.
type TypeKind uint8

// The forms of a type.
const (
	// NativeType is a native type by its CQL name in lower case (int, text, varchar..).
	NativeType TypeKind = iota + 1
	// ListType, SetType, and MapType are the collections. Params holds one or two types.
	ListType
	SetType
	MapType
	// TupleType holds its components in Params.
	TupleType
	// VectorType is vector<Params[0], Dimension> of Cassandra 5.0.
	VectorType
	// UserType is a user-defined type or an unknown word. User is its name.
	UserType
	// CustomType is a Java class name in a string. Name is the class name.
	CustomType
)

// TypeName is a type that has not been resolved. For example, a UserType may not exist.
type TypeName struct {
	Kind TypeKind
	// Frozen reports whether this type is enclosed in frozen<>. Nested types of a frozen type do not inherit Frozen.
	Frozen    bool
	Name      string
	User      QualifiedName
	Params    []*TypeName
	Dimension int
}

// Term is an expression: a value in a WHERE, VALUES, or SET clause, or a selector in a SELECT clause. A SELECT clause
// also permits columns, fields, elements, and casts.
type Term interface {
	term()
}

// ConstantKind is the lexical kind of a constant, as in Cassandra's messages.
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
	// Constant is a literal. Text is the content of a string without quotes and escapes. For other literals, it is the
	// literal as written: hex with 0x, and a negative number with its sign. Booleans are in lower case. NaN and
	// Infinity have this spelling.
	Constant struct {
		Kind ConstantKind
		Text string
	}
	// Null is the keyword null.
	Null struct{}
	// Marker is a bind marker. Index is its number in order of appearance, starting at 0. Name is empty for `?`.
	Marker struct {
		Index int
		Name  string
	}
	// FunctionCall is a call of a function, including token(). count(*) is CountRows.
	FunctionCall struct {
		Name QualifiedName
		Args []Term
	}
	// TypeHint is (type)term. The hint specifies the type and does not convert the value.
	TypeHint struct {
		Type *TypeName
		Term Term
	}
	// Arithmetic is Left Op Right, in which Op is one of + - * / %.
	Arithmetic struct {
		Op    byte
		Left  Term
		Right Term
	}
	// Negate is unary minus before a term that is not a number. A negative number is a Constant.
	Negate struct{ Term Term }
	// ListLiteral is [a, b].
	ListLiteral struct{ Elems []Term }
	// SetLiteral is {a, b}. The text {} is a SetLiteral without elements, regardless of the type of its receiver.
	SetLiteral struct{ Elems []Term }
	// MapLiteral is {k: v}. In a SELECT clause, the literal of a user-defined type has the same syntax. It is parsed
	// as a MapLiteral whose keys are *Column.
	MapLiteral struct{ Entries []MapEntry }
	// UDTLiteral is {field: value} outside a SELECT clause.
	UDTLiteral struct{ Fields []FieldValue }
	// TupleLiteral is (a, b). Outside a SELECT clause, (a) is a tuple with one element. If the receiver is not a tuple,
	// (a) is a parenthesized term.
	TupleLiteral struct{ Elems []Term }
)

// MapEntry is one entry of a MapLiteral.
type MapEntry struct{ Key, Value Term }

// FieldValue is one field of a UDTLiteral.
type FieldValue struct {
	Name  Ident
	Value Term
}

// The terms that occur only in a SELECT clause.
type (
	// Column is a column name.
	Column struct{ Name Ident }
	// Paren is a parenthesized selector. The parentheses do not change its meaning.
	Paren struct{ Term Term }
	// CountRows is count(*).
	CountRows struct{}
	// CellMeta is writetime(x), maxwritetime(x), or ttl(x). Arg is a Column, or an element, slice, or field of a
	// column.
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
	// Slice is term[from..to]. An open end of the slice is nil. At least one end is set.
	Slice struct{ Term, From, To Term }
)

// CellMetaKind is the function of a CellMeta.
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
	// ChangeFeedRelation is `cosmos_changefeed_start_time() op value` or `cosmos_changefeed_mode() op value`. The
	// column of the relation is the name of the function.
	ChangeFeedRelation
)

// Relation is one relation of a WHERE clause. Relations are joined by AND.
type Relation struct {
	Kind    RelationKind
	Columns []Ident
	// Key is the element in `c[key] op value`, or nil.
	Key Term
	Op  Operator
	// Value is the right side. Value is nil for IsNotNull and for IN with a list of values.
	Value Term
	// Values is the list of IN (..), possibly empty. Values is nil if IN has a single marker, in which case Value is a
	// *Marker. In a MultiColumn relation, all values are *TupleLiteral or all are *Marker.
	Values []Term
}

// Condition is one condition of an IF clause. Conditions are joined by AND.
type Condition struct {
	Column Ident
	// Key is the element of `c[key] op value`, or nil. Field is the name in `c.field op value`, or empty.
	Key   Term
	Field Ident
	Op    Operator
	// Value and Values are as in Relation.
	Value  Term
	Values []Term
}

// Using holds the USING clause of a modification. A missing part is nil. A value is an integer *Constant or a *Marker.
// As in Cassandra, the last value takes effect if a part is given more than once. However, a marker must not be
// overridden.
type Using struct {
	Timestamp Term
	TTL       Term
	// Timeout limits the duration of the request: a *Constant or a *Marker. The timeout is an extension of ScyllaDB.
	Timeout Term
	// TTLFirst reports whether TTL was written before TIMESTAMP. TimeoutAfter is the number of parts written before
	// TIMEOUT. These fields preserve the order of the markers.
	TTLFirst     bool
	TimeoutAfter int
}
