// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// marshal is the Java package of Cassandra's type classes.
const marshal = "org.apache.cassandra.db.marshal."

// natives lists the native types by kind. The entries are immutable and shared.
var natives = [...]struct {
	name  string
	class string
	typ   *Type
}{
	Ascii:     {"ascii", "AsciiType", &Type{Kind: Ascii}},
	Bigint:    {"bigint", "LongType", &Type{Kind: Bigint}},
	Blob:      {"blob", "BytesType", &Type{Kind: Blob}},
	Boolean:   {"boolean", "BooleanType", &Type{Kind: Boolean}},
	Counter:   {"counter", "CounterColumnType", &Type{Kind: Counter}},
	Date:      {"date", "SimpleDateType", &Type{Kind: Date}},
	Decimal:   {"decimal", "DecimalType", &Type{Kind: Decimal}},
	Double:    {"double", "DoubleType", &Type{Kind: Double}},
	Duration:  {"duration", "DurationType", &Type{Kind: Duration}},
	Float:     {"float", "FloatType", &Type{Kind: Float}},
	Inet:      {"inet", "InetAddressType", &Type{Kind: Inet}},
	Int:       {"int", "Int32Type", &Type{Kind: Int}},
	Smallint:  {"smallint", "ShortType", &Type{Kind: Smallint}},
	Text:      {"text", "UTF8Type", &Type{Kind: Text}},
	Time:      {"time", "TimeType", &Type{Kind: Time}},
	Timestamp: {"timestamp", "TimestampType", &Type{Kind: Timestamp}},
	Timeuuid:  {"timeuuid", "TimeUUIDType", &Type{Kind: Timeuuid}},
	Tinyint:   {"tinyint", "ByteType", &Type{Kind: Tinyint}},
	UUID:      {"uuid", "UUIDType", &Type{Kind: UUID}},
	Varint:    {"varint", "IntegerType", &Type{Kind: Varint}},
	Empty:     {"empty", "EmptyType", &Type{Kind: Empty}},
}

var nativeByName = func() map[string]*Type {
	byName := map[string]*Type{"varchar": Native(Text)}
	for k, n := range natives {
		if n.typ != nil && Kind(k) != Empty {
			byName[n.name] = n.typ
		}
	}
	return byName
}()

// Native returns the shared type of a native kind (or of Empty), or nil for a composed kind.
func Native(k Kind) *Type {
	if int(k) >= len(natives) {
		return nil
	}
	return natives[k].typ
}

// ByName returns the native type with the given CQL name. The case of the name does not matter. The name "varchar" is
// an alias of text. ByName returns nil if the name is unknown.
func ByName(name string) *Type {
	return nativeByName[strings.ToLower(name)]
}

// ListOf returns the type list<elem>, which is not frozen.
func ListOf(elem *Type) *Type { return &Type{Kind: List, Elems: []*Type{elem}} }

// SetOf returns the type set<elem>, which is not frozen.
func SetOf(elem *Type) *Type { return &Type{Kind: Set, Elems: []*Type{elem}} }

// MapOf returns the type map<key, value>, which is not frozen.
func MapOf(key, value *Type) *Type { return &Type{Kind: Map, Elems: []*Type{key, value}} }

// TupleOf returns tuple<elems...>. Every tuple is frozen, and so are its elements.
func TupleOf(elems ...*Type) *Type {
	return &Type{Kind: Tuple, Frozen: true, Elems: freezeAll(elems)}
}

// UDTOf returns a user-defined type, which is not frozen. fields and types are parallel.
func UDTOf(keyspace, name string, fields []string, types []*Type) *Type {
	return &Type{Kind: UDT, Keyspace: keyspace, Name: name, Fields: fields, Elems: types}
}

// CustomOf returns the opaque type of a Java class.
func CustomOf(class string) *Type { return &Type{Kind: Custom, Name: class} }

// IsCollection reports whether the type is a list, set, or map.
func (t *Type) IsCollection() bool { return t.Kind >= List && t.Kind <= Map }

// MultiCell reports whether a column of this type is stored as one cell per element or field.
func (t *Type) MultiCell() bool { return !t.Frozen && (t.IsCollection() || t.Kind == UDT) }

// Freeze returns the frozen form of t, as in frozen<t>. Freeze returns a native type unchanged.
func (t *Type) Freeze() *Type {
	if !t.IsCollection() && t.Kind != UDT && t.Kind != Tuple {
		return t
	}
	elems := freezeAll(t.Elems)
	if t.Frozen && sameTypes(elems, t.Elems) {
		return t
	}
	frozen := *t
	frozen.Frozen, frozen.Elems = true, elems
	return &frozen
}

func freezeAll(types []*Type) []*Type {
	frozen := make([]*Type, len(types))
	for i, t := range types {
		frozen[i] = t.Freeze()
	}
	return frozen
}

func sameTypes(a, b []*Type) bool {
	return slices.EqualFunc(a, b, func(x, y *Type) bool { return x == y })
}

// Equal reports whether two types are the same, including whether they are frozen.
func (t *Type) Equal(o *Type) bool {
	if t == o {
		return true
	}
	if t == nil || o == nil || t.Kind != o.Kind || t.Frozen != o.Frozen || t.Keyspace != o.Keyspace ||
		t.Name != o.Name || t.Dimension != o.Dimension {
		return false
	}
	return slices.Equal(t.Fields, o.Fields) && slices.EqualFunc(t.Elems, o.Elems, (*Type).Equal)
}

// References reports whether the type is or contains the user-defined type keyspace.name.
func (t *Type) References(keyspace, name string) bool {
	if t.Kind == UDT && t.Keyspace == keyspace && t.Name == name {
		return true
	}
	return slices.ContainsFunc(t.Elems, func(e *Type) bool { return e.References(keyspace, name) })
}

// Contains reports whether the type or any nested component has the given kind.
func (t *Type) Contains(k Kind) bool {
	return t.Kind == k || slices.ContainsFunc(t.Elems, func(e *Type) bool { return e.Contains(k) })
}

// FieldIndex returns the index of a field of a UDT, or -1 if the field does not exist.
func (t *Type) FieldIndex(name string) int { return slices.Index(t.Fields, name) }

// String returns the CQL text of the type in the form of system_schema.columns, such as frozen<list<int>> or
// frozen<tuple<int, text>>. The text of a UDT is its name without the keyspace.
func (t *Type) String() string { return string(appendName(nil, t)) }

func appendName(dst []byte, t *Type) []byte {
	if t == nil {
		return append(dst, "null"...)
	}
	if t.Kind != Custom && t.Frozen {
		dst = append(dst, "frozen<"...)
		bare := *t
		bare.Frozen = false
		return append(appendName(dst, &bare), '>')
	}
	switch t.Kind {
	case List:
		return appendElems(append(dst, "list"...), t)
	case Set:
		return appendElems(append(dst, "set"...), t)
	case Map:
		return appendElems(append(dst, "map"...), t)
	case Tuple:
		return appendElems(append(dst, "tuple"...), t)
	case Vector:
		dst = append(appendName(append(dst, "vector<"...), t.Elems[0]), ", "...)
		return append(strconv.AppendInt(dst, int64(t.Dimension), 10), '>')
	case UDT:
		return append(dst, QuoteName(t.Name)...)
	case Custom:
		dst = append(dst, '\'')
		dst = append(dst, t.Name...)
		return append(dst, '\'')
	}
	if int(t.Kind) < len(natives) && natives[t.Kind].typ != nil {
		return append(dst, natives[t.Kind].name...)
	}
	return append(dst, "invalid"...)
}

func appendElems(dst []byte, t *Type) []byte {
	dst = append(dst, '<')
	for i, e := range t.Elems {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendName(dst, e)
	}
	return append(dst, '>')
}

// JavaClass returns the type in Cassandra's class syntax, such as
// org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.Int32Type). Custom types on the wire and
// some error texts use this syntax.
func (t *Type) JavaClass() string { return classOf(t, false) }

func classOf(t *Type, inFrozen bool) string {
	params := func(types []*Type, within bool) string {
		names := make([]string, len(types))
		for i, e := range types {
			names[i] = classOf(e, within)
		}
		return "(" + strings.Join(names, ",") + ")"
	}
	var class string
	switch t.Kind {
	case List, Set, Map:
		name := map[Kind]string{List: "ListType", Set: "SetType", Map: "MapType"}[t.Kind]
		class = marshal + name + params(t.Elems, inFrozen || t.Frozen)
	case Tuple:
		return marshal + "TupleType" + params(t.Elems, true)
	case Vector:
		return marshal + "VectorType(" + classOf(t.Elems[0], false) + " , " + strconv.Itoa(t.Dimension) + ")"
	case UDT:
		parts := []string{t.Keyspace, hex.EncodeToString([]byte(t.Name))}
		for i, e := range t.Elems {
			parts = append(parts, hex.EncodeToString([]byte(t.Fields[i]))+":"+classOf(e, inFrozen || t.Frozen))
		}
		class = marshal + "UserType(" + strings.Join(parts, ",") + ")"
	case Custom:
		return t.Name
	default:
		if int(t.Kind) < len(natives) && natives[t.Kind].typ != nil {
			return marshal + natives[t.Kind].class
		}
		return marshal + "EmptyType"
	}
	if t.Frozen && !inFrozen {
		return marshal + "FrozenType(" + class + ")"
	}
	return class
}

// reserved lists the words that Cassandra quotes. CQL does not accept these words as unquoted names.
var reserved = func() map[string]bool {
	words := strings.Fields(`add allow alter and apply asc authorize batch begin by columnfamily create delete desc
		describe drop entries execute from full grant if in index infinity insert into is keyspace limit materialized
		modify nan norecursive not null of on or order primary rename revoke schema select set table to
		token truncate unlogged update use using view where with`)
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}()

// QuoteName returns an identifier as CQL text. The text has double quotes if CQL would otherwise parse it differently.
func QuoteName(name string) string {
	plain := name != "" && name[0] >= 'a' && name[0] <= 'z' && !reserved[name]
	for i := 0; plain && i < len(name); i++ {
		c := name[i]
		plain = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_'
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
