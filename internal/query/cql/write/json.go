// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// jsonDocument is the document of INSERT JSON.
type jsonDocument struct {
	text expr.Term
	// columns holds the columns whose values the document provides.
	columns []*schema.Column
	// unset reports whether columns that the document omits are unset instead of null.
	unset bool
	// oldTexts reports whether errors have Cassandra 4.0's error texts.
	oldTexts bool
}

// jsonReceiver is the receiver for the marker of INSERT JSON ?.
var jsonReceiver = expr.Receiver{Name: "[json]", Type: cqltype.Native(cqltype.Text)}

// bindInsertJSON binds an INSERT JSON as an INSERT of all columns. The document provides the values of the markers.
func (p *Plan) bindInsertJSON(s *parser.Insert, env *expr.Env) error {
	if err := p.bindInsertIf(s, env); err != nil {
		return err
	}
	text, err := expr.Bind(s.JSON, jsonReceiver, env)
	if err != nil {
		return err
	}
	p.json = &jsonDocument{text: text, columns: allColumns(p.table), unset: s.DefaultUnset,
		oldTexts: env.Release.OldJSON}
	values := make([]parser.Term, len(p.json.columns))
	for i := range values {
		values[i] = &parser.Marker{Index: i}
	}
	return p.bindValues(p.json.columns, values, expr.NewEnv(env.Release, p.keyspace, p.table, len(values)))
}

// bindings evaluates the document and returns bindings with the values of the columns.
func (d *jsonDocument) bindings(b *expr.Bindings) (*expr.Bindings, error) {
	text, state, err := d.text.Eval(b)
	if err != nil {
		return nil, err
	}
	if err := b.Meter.Alloc(expr.JSONMemory(text)); err != nil {
		return nil, err
	}
	if state == expr.Null {
		return nil, dberr.Invalidf("Got null for INSERT JSON values")
	}
	names, values, err := jsonMembers(string(text), d.oldTexts)
	if err != nil {
		return nil, err
	}
	n := len(d.columns)
	out := &expr.Bindings{Values: make([][]byte, n), Unset: make([]bool, n), Now: b.Now, UUIDs: b.UUIDs}
	for i, c := range d.columns {
		v, given := values[c.Name]
		delete(values, c.Name)
		if !given {
			out.Unset[i] = d.unset
			continue
		}
		if v == nil {
			continue
		}
		if out.Values[i], err = c.Type.FromJSON(v); err != nil {
			if bad, ok := errors.AsType[*cqltype.JSONValueError](err); ok {
				err = dberr.Invalidf("Error decoding JSON value for %s: %s", c.Name, bad.Text(d.oldTexts))
			}
			return nil, err
		}
	}
	for _, name := range names {
		if _, left := values[name]; left {
			return nil, dberr.Invalidf("JSON values map contains unrecognized column: %s", name)
		}
	}
	return out, nil
}

// jsonMembers parses the document. It converts member names to column names. Unquoted names are converted to lower
// case. If old is true, errors have Cassandra 4.0's error texts.
func jsonMembers(text string, old bool) (names []string, values map[string]any, err error) {
	object, err := cqltype.ParseJSONMap(text, old)
	if err != nil {
		return nil, nil, err
	}
	if object == nil {
		return nil, nil, dberr.Invalidf("Got null for INSERT JSON values")
	}
	values = make(map[string]any, len(object.Names))
	for i, name := range object.Names {
		name = cqltype.JSONName(name)
		names = append(names, name)
		values[name] = object.Values[i]
	}
	return names, values, nil
}
