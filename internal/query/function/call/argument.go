// SPDX-License-Identifier: Apache-2.0

package call

import (
	"strconv"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// argument is an argument of a CALL statement. After values have been bound, the argument is encoded as JSON.
type argument interface {
	append(dst []byte, b *expr.Bindings) ([]byte, error)
}

type (
	// value is a CQL value. It is encoded in the same way as the result of toJson().
	value struct {
		name string
		term expr.Term
	}
	// json is a call of fromJson(..). The text of the value is JSON.
	json struct{ value }
	// list is a JSON array. object is a JSON object.
	list   []argument
	object struct {
		names  []string
		values list
	}
)

func (v *value) eval(b *expr.Bindings) ([]byte, error) {
	wire, state, err := v.term.Eval(b)
	if err == nil && state == expr.Unset {
		err = dberr.Invalidf("Invalid unset value for argument %s of a procedure", v.name)
	}
	return wire, err
}

func (v *value) append(dst []byte, b *expr.Bindings) ([]byte, error) {
	wire, err := v.eval(b)
	if err != nil {
		return dst, err
	}
	return v.term.Type().AppendJSON(dst, wire), nil
}

func (j *json) append(dst []byte, b *expr.Bindings) ([]byte, error) {
	text, err := j.eval(b)
	if err != nil {
		return dst, err
	}
	if text == nil {
		return append(dst, "null"...), nil
	}
	v, err := document.Parse(text, document.Limits{})
	if err != nil {
		return dst, dberr.Invalidf("Argument %s is not valid JSON: %v", j.name, err)
	}
	return v.Append(dst), nil
}

func (l list) append(dst []byte, b *expr.Bindings) ([]byte, error) {
	dst = append(dst, '[')
	for i, a := range l {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = a.append(dst, b); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (o *object) append(dst []byte, b *expr.Bindings) ([]byte, error) {
	dst = append(dst, '{')
	for i, a := range o.values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(document.AppendString(dst, o.names[i]), ':')
		var err error
		if dst, err = a.append(dst, b); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// binder binds the arguments of one CALL.
type binder struct{ env *expr.Env }

// constantTypes maps constants to their types if no type is specified.
var constantTypes = map[parser.ConstantKind]cqltype.Kind{
	parser.StringConstant: cqltype.Text, parser.IntegerConstant: cqltype.Varint, parser.FloatConstant: cqltype.Double,
	parser.BooleanConstant: cqltype.Boolean, parser.UUIDConstant: cqltype.UUID, parser.HexConstant: cqltype.Blob,
	parser.DurationConstant: cqltype.Duration,
}

// bind binds an argument and returns its type. Without a type hint, a constant has the type of its literal, and a
// marker has the type text.
func (b *binder) bind(term parser.Term, name string) (argument, string, error) {
	text := cqltype.Native(cqltype.Text)
	switch t := term.(type) {
	case *parser.Constant:
		return b.typed(term, name, cqltype.Native(constantTypes[t.Kind]))
	case *parser.Null, *parser.Marker:
		return b.typed(term, name, text)
	case *parser.Paren:
		return b.bind(t.Term, name)
	case *parser.TypeHint:
		typ, err := b.env.ResolveType(t.Type)
		if err != nil {
			return nil, "", err
		}
		return b.typed(term, name, typ.Freeze())
	case *parser.FunctionCall:
		if f := t.Name; !f.HasKeyspace() && (f.Name.Name == "fromjson" || f.Name.Name == "from_json") &&
			len(t.Args) == 1 {
			bound, err := expr.Bind(t.Args[0], expr.Receiver{Name: name, Type: text}, b.env)
			return &json{value{name, bound}}, "json", err
		}
	case *parser.ListLiteral:
		return b.list(t.Elems, name)
	case *parser.SetLiteral:
		if len(t.Elems) == 0 {
			return &object{}, "map", nil // the literal {}
		}
		return b.list(t.Elems, name)
	case *parser.TupleLiteral:
		return b.list(t.Elems, name)
	case *parser.MapLiteral:
		return b.object(len(t.Entries), name, func(i int) (string, parser.Term, bool) {
			key, ok := t.Entries[i].Key.(*parser.Constant)
			if !ok {
				return "", nil, false
			}
			return key.Text, t.Entries[i].Value, true
		})
	case *parser.UDTLiteral:
		return b.object(len(t.Fields), name, func(i int) (string, parser.Term, bool) {
			return t.Fields[i].Name.Name, t.Fields[i].Value, true
		})
	}
	return nil, "", dberr.Invalidf("%s cannot be an argument of a procedure: use a literal, a bind marker, a term with "+
		"a type hint such as (int) ?, or fromJson(..)", expr.Text(term))
}

func (b *binder) typed(term parser.Term, name string, typ *cqltype.Type) (argument, string, error) {
	bound, err := expr.Bind(term, expr.Receiver{Name: name, Type: typ}, b.env)
	return &value{name, bound}, typ.String(), err
}

func (b *binder) list(terms []parser.Term, name string) (argument, string, error) {
	l := list{}
	for _, t := range terms {
		a, _, err := b.bind(t, name)
		if err != nil {
			return nil, "", err
		}
		l = append(l, a)
	}
	return l, "list", nil
}

// object binds an object with n members. The names of the members must be constants.
func (b *binder) object(n int, name string, member func(i int) (string, parser.Term, bool)) (argument, string, error) {
	o := &object{}
	for i := range n {
		key, term, ok := member(i)
		if !ok {
			return nil, "", dberr.Invalidf("The keys of a map argument of a procedure must be literals: argument %s",
				name)
		}
		a, _, err := b.bind(term, name)
		if err != nil {
			return nil, "", err
		}
		o.names, o.values = append(o.names, key), append(o.values, a)
	}
	return o, "map", nil
}

// markerOf returns the bind marker of a term, or nil if the term is not a marker. It ignores type hints.
func markerOf(term parser.Term) *parser.Marker {
	switch t := term.(type) {
	case *parser.Marker:
		return t
	case *parser.TypeHint:
		return markerOf(t.Term)
	case *parser.Paren:
		return markerOf(t.Term)
	}
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }
