// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TypeSpec is a type in the form in which a statement specifies it. The user-defined types in a TypeSpec are names,
// and a type with such a name may not exist. The text form (MarshalText) is CQL, which ParseType can parse.
type TypeSpec struct {
	// Kind is a native kind, List, Set, Map, Tuple, Vector, UDT, or Custom.
	Kind cqltype.Kind
	// Frozen is true if the statement specified the type inside frozen<>.
	Frozen bool
	// Keyspace (empty if unspecified) and Name identify a UDT. For a Custom type, Name is the class.
	Keyspace, Name string
	Params         []*TypeSpec
	// Dimension is the number of elements of a vector.
	Dimension int
}

// SpecOf returns the spec of a type.
func SpecOf(t *cqltype.Type) *TypeSpec {
	s := &TypeSpec{Kind: t.Kind, Frozen: t.Frozen, Keyspace: t.Keyspace, Name: t.Name, Dimension: t.Dimension}
	if t.Kind != cqltype.UDT {
		for _, e := range t.Elems {
			s.Params = append(s.Params, SpecOf(e))
		}
	}
	return s
}

// String returns the type as in Cassandra's messages, with unquoted names.
func (t *TypeSpec) String() string {
	return string(t.append(nil, func(name string) string { return name }))
}

// MarshalText returns the type as CQL text for ParseType.
func (t *TypeSpec) MarshalText() ([]byte, error) {
	return t.append(nil, func(name string) string {
		// Names are always quoted, because a user-defined type may have the name of a native type.
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}), nil
}

// UnmarshalText parses a text in the same way as ParseType.
func (t *TypeSpec) UnmarshalText(b []byte) error {
	spec, err := ParseType(string(b))
	if err != nil {
		return err
	}
	*t = *spec
	return nil
}

func (t *TypeSpec) append(dst []byte, quote func(string) string) []byte {
	if t.Frozen {
		dst = append(dst, "frozen<"...)
		bare := *t
		bare.Frozen = false
		return append(bare.append(dst, quote), '>')
	}
	switch t.Kind {
	case cqltype.List:
		dst = append(dst, "list"...)
	case cqltype.Set:
		dst = append(dst, "set"...)
	case cqltype.Map:
		dst = append(dst, "map"...)
	case cqltype.Tuple:
		dst = append(dst, "tuple"...)
	case cqltype.Vector:
		dst = append(dst, "vector"...)
	case cqltype.UDT:
		if t.Keyspace != "" {
			dst = append(dst, quote(t.Keyspace)...)
			dst = append(dst, '.')
		}
		return append(dst, quote(t.Name)...)
	case cqltype.Custom:
		return append(dst, FormatString(t.Name)...)
	default:
		return append(dst, cqltype.Native(t.Kind).String()...)
	}
	dst = append(dst, '<')
	for i, p := range t.Params {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = p.append(dst, quote)
	}
	if t.Kind == cqltype.Vector {
		dst = strconv.AppendInt(append(dst, ", "...), int64(t.Dimension), 10)
	}
	return append(dst, '>')
}

// isFrozen reports whether a value of the type is always one cell. Tuples are always one cell.
func (t *TypeSpec) isFrozen() bool {
	return t.Frozen || t.Kind == cqltype.Tuple || !t.isCollection() && t.Kind != cqltype.UDT
}

func (t *TypeSpec) isCollection() bool { return t.Kind >= cqltype.List && t.Kind <= cqltype.Map }

// Bind resolves the type in a keyspace with the given user-defined types. Errors are of the type *dberr.Invalid and
// have Cassandra's texts.
func (t *TypeSpec) Bind(keyspace string, types map[string]*cqltype.Type) (*cqltype.Type, error) {
	return t.bind(keyspace, types, false)
}

// bind implements Bind. within is true inside a frozen type, where nested collections need not be frozen.
func (t *TypeSpec) bind(keyspace string, types map[string]*cqltype.Type, within bool) (*cqltype.Type, error) {
	if t == nil {
		return nil, dberr.Invalidf("no type given")
	}
	frozen := within || t.Frozen
	var bound *cqltype.Type
	switch t.Kind {
	case cqltype.UDT:
		udt, err := t.bindUDT(keyspace, types)
		if err != nil {
			return nil, err
		}
		bound = udt
	case cqltype.List, cqltype.Set, cqltype.Map:
		if err := t.checkElements(frozen); err != nil {
			return nil, err
		}
		elems, err := t.bindParams(keyspace, types, frozen)
		if err != nil {
			return nil, err
		}
		bound = &cqltype.Type{Kind: t.Kind, Elems: elems}
	case cqltype.Tuple:
		if slices.ContainsFunc(t.Params, func(p *TypeSpec) bool { return p.Kind == cqltype.Counter }) {
			return nil, dberr.Invalidf("Counters are not allowed inside tuples")
		}
		elems, err := t.bindParams(keyspace, types, true)
		if err != nil {
			return nil, err
		}
		bound = cqltype.TupleOf(elems...)
	case cqltype.Vector:
		if t.Dimension < 1 {
			return nil, dberr.Invalidf("vectors may only have positive dimensions; given %d", t.Dimension)
		}
		elems, err := t.bindParams(keyspace, types, true)
		if err != nil {
			return nil, err
		}
		return cqltype.VectorOf(elems[0], t.Dimension), nil
	case cqltype.Custom:
		bound = cqltype.CustomOf(t.Name)
	default:
		return cqltype.Native(t.Kind), nil
	}
	if frozen {
		bound = bound.Freeze()
	}
	return bound, nil
}

func (t *TypeSpec) bindParams(keyspace string, types map[string]*cqltype.Type, within bool) ([]*cqltype.Type, error) {
	bound := make([]*cqltype.Type, len(t.Params))
	for i, p := range t.Params {
		var err error
		if bound[i], err = p.bind(keyspace, types, within); err != nil {
			return nil, err
		}
	}
	return bound, nil
}

func (t *TypeSpec) bindUDT(keyspace string, types map[string]*cqltype.Type) (*cqltype.Type, error) {
	if t.Keyspace != "" && t.Keyspace != keyspace {
		return nil, dberr.Invalidf("Statement on keyspace %s cannot refer to a user type in keyspace %s; user "+
			"types can only be used in the keyspace they are defined in",
			keyspace, t.Keyspace)
	}
	udt := types[t.Name]
	if udt == nil {
		return nil, dberr.Invalidf("Unknown type %s.%s", keyspace, t.Name)
	}
	return udt, nil
}

// checkElements rejects types that are not allowed in a collection.
func (t *TypeSpec) checkElements(frozen bool) error {
	value := t.Params[len(t.Params)-1]
	if err := t.checkNested(value, frozen); err != nil {
		return err
	}
	if value.Kind == cqltype.Counter {
		return dberr.Invalidf("Counters are not allowed inside collections: %s", t)
	}
	if t.Kind == cqltype.Set && value.Kind == cqltype.Duration {
		return dberr.Invalidf("Durations are not allowed inside sets: %s", t)
	}
	if t.Kind != cqltype.Map {
		return nil
	}
	key := t.Params[0]
	if key.Kind == cqltype.Counter {
		return dberr.Invalidf("Counters are not allowed inside collections: %s", t)
	}
	if key.Kind == cqltype.Duration {
		return dberr.Invalidf("Durations are not allowed as map keys: %s", t)
	}
	return t.checkNested(key, frozen)
}

func (t *TypeSpec) checkNested(inner *TypeSpec, frozen bool) error {
	if frozen || inner.isFrozen() {
		return nil
	}
	if inner.isCollection() {
		return dberr.Invalidf("Non-frozen collections are not allowed inside collections: %s", t)
	}
	return dberr.Invalidf("Non-frozen UDTs are not allowed inside collections: %s", t)
}

// ParseType parses the CQL text of a type, as written by MarshalText and cqltype.Type.String. ParseType does not
// accept comments. It is intended for stored texts. The CQL parser parses types in client statements.
func ParseType(text string) (*TypeSpec, error) {
	p := typeParser{text: text}
	t := p.parse(0)
	p.space()
	if t == nil || p.pos != len(text) {
		return nil, dberr.Invalidf("cannot read type %q", text)
	}
	return t, nil
}

// typeDepthMax is the maximum nesting depth of types.
const typeDepthMax = 64

type typeParser struct {
	text string
	pos  int
}

func (p *typeParser) space() {
	for p.pos < len(p.text) && p.text[p.pos] == ' ' {
		p.pos++
	}
}

func (p *typeParser) take(c byte) bool {
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// word parses a name. quoted is true if the name was in double quotes.
func (p *typeParser) word() (name string, quoted, ok bool) {
	p.space()
	if p.take('"') {
		name, ok = p.until('"')
		return name, true, ok
	}
	start := p.pos
	for p.pos < len(p.text) && isWordByte(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos], false, p.pos > start
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// until reads up to the next quote. A doubled quote represents one quote.
func (p *typeParser) until(quote byte) (string, bool) {
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		if c == quote {
			if p.pos == len(p.text) || p.text[p.pos] != quote {
				return b.String(), true
			}
			p.pos++
		}
		b.WriteByte(c)
	}
	return "", false
}

var composed = map[string]cqltype.Kind{"list": cqltype.List, "set": cqltype.Set, "map": cqltype.Map,
	"tuple": cqltype.Tuple, "vector": cqltype.Vector}

// parse parses a type. parse returns nil if the text does not start with a type.
func (p *typeParser) parse(depth int) *TypeSpec {
	if depth > typeDepthMax {
		return nil
	}
	if p.take('\'') {
		class, ok := p.until('\'')
		if !ok {
			return nil
		}
		return &TypeSpec{Kind: cqltype.Custom, Name: class}
	}
	name, quoted, ok := p.word()
	if !ok {
		return nil
	}
	if !quoted && p.take('<') {
		return p.params(name, depth)
	}
	if !quoted {
		if native := cqltype.ByName(name); native != nil {
			return &TypeSpec{Kind: native.Kind}
		}
	}
	udt := &TypeSpec{Kind: cqltype.UDT, Name: name}
	if p.take('.') {
		udt.Keyspace = name
		if udt.Name, _, ok = p.word(); !ok {
			return nil
		}
	}
	return udt
}

// params parses the part after "name<".
func (p *typeParser) params(name string, depth int) *TypeSpec {
	var params []*TypeSpec
	dimension := 0
	for {
		if name == "vector" && len(params) == 1 {
			digits, _, _ := p.word()
			n, err := strconv.ParseInt(digits, 10, 32)
			if dimension = int(n); err != nil || n < 1 {
				return nil
			}
			break
		}
		e := p.parse(depth + 1)
		if e == nil {
			return nil
		}
		params = append(params, e)
		if !p.take(',') {
			break
		}
	}
	if !p.take('>') {
		return nil
	}
	if name == "frozen" && len(params) == 1 {
		params[0].Frozen = true
		return params[0]
	}
	kind, ok := composed[name]
	if !ok || kind == cqltype.Map && len(params) != 2 || (kind == cqltype.List || kind == cqltype.Set) &&
		len(params) != 1 || kind == cqltype.Vector && dimension == 0 {
		return nil
	}
	return &TypeSpec{Kind: kind, Params: params, Dimension: dimension}
}
