// SPDX-License-Identifier: Apache-2.0

package parser

// Statement is a parsed CQL statement. Each kind of statement has a pointer type in this package, such as *Select.
type Statement interface {
	// String prints the statement as CQL. The result parses to an equal tree.
	String() string
	statement()
}

// Ident is an identifier. Name is the normalized form without quotes. An unquoted identifier is converted to lower
// case.
type Ident struct {
	Name   string
	Quoted bool
}

// QualifiedName is a name with an optional keyspace. If the statement does not specify a keyspace, Keyspace.Name is
// empty.
type QualifiedName struct {
	Keyspace Ident
	Name     Ident
}

// HasKeyspace reports whether the statement specifies a keyspace.
func (q QualifiedName) HasKeyspace() bool { return q.Keyspace.Name != "" }

// BindMarker describes one bind marker of a statement.
type BindMarker struct {
	// Name is the name of a `:name` marker, or empty for `?`. Each occurrence of a name is a separate marker.
	Name string
}

// TypeKind is the syntactic form of a type.
type TypeKind uint8

// These are the forms of a type.
const (
	// NativeType is a native type. Name is the CQL name in lower case, such as int or text.
	NativeType TypeKind = iota + 1
	// ListType, SetType, and MapType are collection types. Params holds the types of the elements, or of the keys and
	// values.
	ListType
	SetType
	MapType
	// TupleType is a tuple type. Params holds the types of the components.
	TupleType
	// VectorType is Cassandra 5.0's type vector<Params[0], Dimension>.
	VectorType
	// UserType is a user-defined type or an unknown word. User is the name.
	UserType
	// CustomType is a type that is specified by a Java class name in a string. Name is the class name.
	CustomType
)

// TypeName is an unresolved type. A UserType may refer to a type that does not exist.
type TypeName struct {
	Kind TypeKind
	// Frozen reports whether this type is enclosed in frozen<>. Nested types of a frozen type do not inherit Frozen.
	Frozen    bool
	Name      string
	User      QualifiedName
	Params    []*TypeName
	Dimension int
}

// Term is an expression. It is a value in a WHERE, VALUES, or SET clause, or a selector in a SELECT clause. A SELECT
// clause also permits columns, fields, elements, and casts.
type Term interface {
	term()
}

// ConstantKind is the lexical kind of a constant.
type ConstantKind uint8

// These are the kinds of constants.
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

// String returns the name that Cassandra's messages use, such as STRING.
func (k ConstantKind) String() string {
	if int(k) < len(constantKindNames) {
		return constantKindNames[k]
	}
	return ""
}

type (
	// Constant is a literal. For a string, Text is the content without quotes and escapes. For other literals, Text is
	// the source text, including the prefix 0x and the sign. Booleans are converted to lower case. NaN and Infinity are
	// converted to this spelling.
	Constant struct {
		Kind ConstantKind
		Text string
	}
	// Null is the keyword null.
	Null struct{}
	// Marker is a bind marker. Index is the number of the marker in order of appearance, starting at 0. For `?`, Name
	// is empty.
	Marker struct {
		Index int
		Name  string
	}
	// FunctionCall is a function call, including token(). CountRows represents count(*).
	FunctionCall struct {
		Name QualifiedName
		Args []Term
	}
	// TypeHint is (type)term. The hint specifies the type of the term but does not convert the value.
	TypeHint struct {
		Type *TypeName
		Term Term
	}
	// Arithmetic is Left Op Right. Op is one of + - * / %.
	Arithmetic struct {
		Op    byte
		Left  Term
		Right Term
	}
	// Negate is a unary minus before a term other than a number. Negative numbers are Constants.
	Negate struct{ Term Term }
	// ListLiteral is [a, b].
	ListLiteral struct{ Elems []Term }
	// SetLiteral is {a, b}. The text {} is always a SetLiteral without elements.
	SetLiteral struct{ Elems []Term }
	// MapLiteral is {k: v}. In a SELECT clause, the literal of a user-defined type has the same syntax. Such a literal
	// is parsed as a MapLiteral whose keys are *Column.
	MapLiteral struct{ Entries []MapEntry }
	// UDTLiteral is {field: value} outside a SELECT clause.
	UDTLiteral struct{ Fields []FieldValue }
	// TupleLiteral is (a, b). Outside a SELECT clause, (a) is also parsed as a TupleLiteral. If the receiver is not a
	// tuple, (a) is a parenthesized term.
	TupleLiteral struct{ Elems []Term }
)

// MapEntry is one entry of a MapLiteral.
type MapEntry struct{ Key, Value Term }

// FieldValue is one field of a UDTLiteral.
type FieldValue struct {
	Name  Ident
	Value Term
}

// These terms occur only in SELECT clauses.
type (
	// Column is a column name.
	Column struct{ Name Ident }
	// Paren is a parenthesized selector. The parentheses do not change the meaning of the selector.
	Paren struct{ Term Term }
	// CountRows is count(*).
	CountRows struct{}
	// CellMeta is writetime(x), maxwritetime(x), or ttl(x). Arg is a column, or an element, slice, or field of a
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
	// Slice is term[from..to]. An open end is nil. At least one end is not nil.
	Slice struct{ Term, From, To Term }
)

// CellMetaKind is the function of a CellMeta.
type CellMetaKind uint8

// These are the kinds of CellMeta.
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

// These are the operators.
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

// These are the kinds of relations.
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

// Relation is one relation of a WHERE clause. The relations of a clause are joined by AND.
type Relation struct {
	Kind    RelationKind
	Columns []Ident
	// Key is the key in `c[key] op value`. For other relations, Key is nil.
	Key Term
	Op  Operator
	// Value is the right side of the relation. For IsNotNull and for IN with a list of values, Value is nil.
	Value Term
	// Values is the possibly empty list in IN (..). If the right side of IN is a marker, Values is nil and Value is a
	// *Marker. In a MultiColumn relation, either all values are *TupleLiteral or all values are *Marker.
	Values []Term
}

// Condition is one condition of an IF clause. The conditions of a clause are joined by AND.
type Condition struct {
	Column Ident
	// Key is the key in `c[key] op value`, or nil. Field is the field name in `c.field op value`, or empty.
	Key   Term
	Field Ident
	Op    Operator
	// Value and Values have the same meaning as in Relation.
	Value  Term
	Values []Term
}

// Using holds the USING clause of a modification. A missing part is nil. A value is an integer *Constant or a *Marker.
// As in Cassandra, if a part occurs several times, the last value takes effect. However, a marker must not be
// overridden.
type Using struct {
	Timestamp Term
	TTL       Term
	// Timeout limits the duration of the request. It is a *Constant or a *Marker. The timeout is a ScyllaDB extension.
	Timeout Term
	// TTLFirst reports whether TTL precedes TIMESTAMP. TimeoutAfter is the number of parts before TIMEOUT. Both fields
	// preserve the order of the markers.
	TTLFirst     bool
	TimeoutAfter int
}
