// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Text prints a term in the format of Cassandra's messages. The result resembles the source text, but spaces are
// normalized, function names are in lower case, and doubled quotes in strings are single quotes.
func Text(t parser.Term) string { return (&printer{}).text(t) }

// message works like Text but prints user-defined types with their keyspace.
func (b *binder) message(t parser.Term) string {
	return (&printer{keyspace: b.env.keyspaceName()}).text(t)
}

// printer prints terms. If types is set, it prints the names of result columns.
type printer struct {
	types *inference // nil for messages
	// keyspace qualifies user-defined types without a keyspace. If keyspace is empty, these types are printed without a
	// keyspace.
	keyspace string
}

func (p *printer) text(t parser.Term) string {
	switch t := t.(type) {
	case *parser.Constant:
		if t.Kind == parser.StringConstant {
			return "'" + t.Text + "'"
		}
		return t.Text
	case *parser.Null:
		return "NULL"
	case *parser.Marker:
		if t.Name != "" {
			return ":" + t.Name
		}
		return "?"
	case *parser.FunctionCall:
		if p.types != nil && isCountRows(t) {
			return "count"
		}
		return p.functionName(t) + "(" + p.list(t.Args) + ")"
	case *parser.TypeHint:
		return "(" + typeText(t.Type, p.keyspace) + ")" + p.text(t.Term)
	case *parser.Arithmetic:
		return p.text(t.Left) + " " + string(t.Op) + " " + p.text(t.Right)
	case *parser.Negate:
		return "-" + p.text(t.Term)
	case *parser.ListLiteral:
		return "[" + p.list(t.Elems) + "]"
	case *parser.SetLiteral:
		return "{" + p.list(t.Elems) + "}"
	case *parser.TupleLiteral:
		return "(" + p.list(t.Elems) + ")"
	case *parser.MapLiteral:
		var parts []string
		for _, e := range t.Entries {
			parts = append(parts, p.text(e.Key)+": "+p.text(e.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *parser.UDTLiteral:
		var parts []string
		for _, f := range t.Fields {
			parts = append(parts, f.Name.Name+": "+p.text(f.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return p.selector(t)
}

func (p *printer) selector(t parser.Term) string {
	switch t := t.(type) {
	case *parser.Column:
		return t.Name.Name
	case *parser.Paren:
		return "(" + p.text(t.Term) + ")"
	case *parser.CountRows:
		return "count"
	case *parser.CellMeta:
		return cellMetaName(t.Kind) + "(" + p.text(t.Arg) + ")"
	case *parser.Cast:
		if p.types != nil && p.types.castIsNoop(t) {
			return p.text(t.Term)
		}
		return "cast(" + p.text(t.Term) + " as " + typeText(t.Type, p.keyspace) + ")"
	case *parser.Field:
		return p.text(t.Term) + "." + t.Name.Name
	case *parser.Element:
		return p.text(t.Term) + "[" + p.text(t.Key) + "]"
	case *parser.Slice:
		from, to := "", ""
		if t.From != nil {
			from = p.text(t.From)
		}
		if t.To != nil {
			to = p.text(t.To)
		}
		return p.text(t.Term) + "[" + from + ".." + to + "]"
	}
	return ""
}

func (p *printer) list(terms []parser.Term) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		parts[i] = p.text(t)
	}
	return strings.Join(parts, ", ")
}

// functionName returns the name of a function from the source text. For names of result columns, it returns the name of
// the resolved function.
func (p *printer) functionName(t *parser.FunctionCall) string {
	if p.types != nil && !t.Name.HasKeyspace() {
		if f, err := p.types.resolveCall(t, nil); err == nil && f != nil && f.user != nil {
			return f.qualified()
		}
		return "system." + t.Name.Name.Name
	}
	if t.Name.HasKeyspace() {
		return t.Name.Keyspace.Name + "." + t.Name.Name.Name
	}
	return t.Name.Name.Name
}

func cellMetaName(k parser.CellMetaKind) string {
	switch k {
	case parser.WriteTime:
		return "writetime"
	case parser.MaxWriteTime:
		return "maxwritetime"
	}
	return "ttl"
}

// typeText prints a type in lower case. User-defined types are printed with their own keyspace or the given keyspace.
// Nested types of a frozen type are printed as frozen. Tuples and vectors are printed without frozen because they are
// always frozen.
func typeText(n *parser.TypeName, keyspace string) string { return typeTextIn(n, keyspace, false) }

func typeTextIn(n *parser.TypeName, keyspace string, frozen bool) string {
	frozen = frozen || n.Frozen
	var s string
	params := func(name string) string {
		parts := make([]string, len(n.Params))
		for i, p := range n.Params {
			parts[i] = typeTextIn(p, keyspace, frozen || n.Kind == parser.TupleType)
		}
		return name + "<" + strings.Join(parts, ", ") + ">"
	}
	switch n.Kind {
	case parser.ListType:
		s = params("list")
	case parser.SetType:
		s = params("set")
	case parser.MapType:
		s = params("map")
	case parser.TupleType:
		return params("tuple")
	case parser.VectorType:
		return "vector<" + typeTextIn(n.Params[0], keyspace, false) + ", " + itoa(n.Dimension) + ">"
	case parser.UserType:
		s = cqltype.QuoteName(n.User.Name.Name)
		if n.User.HasKeyspace() {
			keyspace = n.User.Keyspace.Name
		}
		if keyspace != "" {
			s = cqltype.QuoteName(keyspace) + "." + s
		}
	case parser.CustomType:
		return "'" + n.Name + "'"
	default:
		if s = n.Name; s == "varchar" {
			s = "text"
		}
		return s
	}
	if frozen {
		return "frozen<" + s + ">"
	}
	return s
}
