// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
	"github.com/ilion-db/ilion/internal/query/cql/view"
)

func (e *Executor) createView(s *parser.CreateView, session string) (schema.Change, error) {
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	of, err := keyspaceOf(s.Table, ks)
	if err != nil {
		return nil, err
	}
	c := &schema.CreateView{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfNotExists: s.IfNotExists,
		ID: e.opts.UUID(), BaseKeyspace: of, Base: s.Table.Name.Name,
		PartitionKey: names(s.PrimaryKey.Partition), Clustering: names(s.PrimaryKey.Clustering),
		CompactStorage: s.Options.CompactStorage, Properties: properties(s.Options.Properties),
		Check: func(ks *schema.Keyspace, base *schema.Table) error {
			if err := view.Check(e.opts.Release, s.Where, ks, base); err != nil {
				return err
			}
			return view.CheckText(ks, base, &schema.View{Base: base.Name, Where: where(s.Where)})
		}}
	for i := range s.Selectors {
		name, err := selected(&s.Selectors[i])
		if err != nil {
			return nil, err
		}
		c.Selected = append(c.Selected, name)
	}
	var late *notConstant
	for i := range s.Where {
		if err := constant(&s.Where[i]); errors.As(err, &late) {
			c.CheckWhere = func() error { return late.Invalid }
		} else if err != nil {
			return nil, err
		}
	}
	c.Where = where(s.Where)
	for _, o := range s.Options.ClusteringOrder {
		c.Order = append(c.Order, schema.OrderSpec{Column: o.Column.Name, Desc: o.Descending})
	}
	return c, nil
}

func where(relations []parser.Relation) (out []schema.ViewRelation) {
	for i := range relations {
		r := &relations[i]
		out = append(out, schema.ViewRelation{Multi: r.Kind == parser.MultiColumn, NotNull: r.Op == parser.IsNotNull,
			Columns: names(r.Columns), Rest: relation.OperatorText(r)})
	}
	return out
}

// createView formats a view.
func createView(t *schema.Table, internals bool, rel *compat.Release) string {
	var b strings.Builder
	columns := "*"
	if !t.View.AllColumns {
		var list []*schema.Column
		for c := range t.Columns() {
			list = append(list, c)
		}
		columns = quoted(list)
	}
	partition := quoted(t.PartitionKey)
	if len(t.PartitionKey) > 1 {
		partition = "(" + partition + ")"
	}
	key := partition
	if len(t.Clustering) > 0 {
		key += ", " + quoted(t.Clustering)
	}
	fmt.Fprintf(&b, "CREATE MATERIALIZED VIEW %s AS\n    SELECT %s\n    FROM %s.%s\n    WHERE %s\n    PRIMARY KEY (%s)\n WITH ",
		tableName(t), columns, quote(t.Keyspace), quote(t.View.Base), t.View.WhereText(), key)
	if internals {
		b.WriteString("ID = " + t.UUID.String() + "\n    AND ")
	}
	writeClusteringOrder(&b, t)
	var texts []string
	for _, text := range optionTexts(&t.Options, rel) {
		if !strings.HasPrefix(text, "default_time_to_live ") {
			texts = append(texts, text)
		}
	}
	b.WriteString(strings.Join(texts, "\n    AND ") + ";")
	return b.String()
}

// selected returns the column that a selector refers to.
func selected(s *parser.Selector) (string, error) {
	c, ok := s.Term.(*parser.Column)
	switch {
	case s.Alias.Name != "":
		return "", dberr.Invalidf("Cannot use aliases when defining a materialized view (got %s)", s.Alias.Name)
	case !ok:
		return "", dberr.Invalidf("Can only select columns by name when defining a materialized view (got %s)",
			expr.Text(s.Term))
	}
	return c.Name.Name, nil
}

// notConstant is the error for a computed value in a relation. The error is returned only if
// the column may be restricted.
type notConstant struct{ *dberr.Invalid }

// constant rejects relations whose values are not constant.
func constant(r *parser.Relation) error {
	return constants(append([]parser.Term{r.Key, r.Value}, r.Values...)...)
}

func constants(terms ...parser.Term) error {
	for _, t := range terms {
		var err error
		switch t := t.(type) {
		case nil, *parser.Constant, *parser.Null:
		case *parser.Marker:
			err = dberr.Invalidf("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements")
		case *parser.TypeHint:
			err = constants(t.Term)
		case *parser.Negate:
			err = constants(t.Term)
		case *parser.ListLiteral:
			err = constants(t.Elems...)
		case *parser.SetLiteral:
			err = constants(t.Elems...)
		case *parser.TupleLiteral:
			err = constants(t.Elems...)
		case *parser.MapLiteral:
			for _, e := range t.Entries {
				err = errors.Join(err, constants(e.Key, e.Value))
			}
		case *parser.UDTLiteral:
			for _, f := range t.Fields {
				err = errors.Join(err, constants(f.Value))
			}
		default:
			err = &notConstant{&dberr.Invalid{Message: "The WHERE clause of a materialized view supports only " +
				"constants, not " + expr.Text(t)}}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
