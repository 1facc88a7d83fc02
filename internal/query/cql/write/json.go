// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// bindInsertJSON binds INSERT JSON as an INSERT of all columns. The document provides the values of its markers.
func (p *Plan) bindInsertJSON(s *parser.Insert, env *expr.Env) error {
	if err := p.bindInsertIf(s, env); err != nil {
		return err
	}
	var err error
	if p.json, err = expr.Bind(s.JSON, jsonReceiver, env); err != nil {
		return err
	}
	p.jsonUnset, p.oldJSON = s.DefaultUnset, env.Release.OldJSON
	p.jsonColumns = allColumns(p.table)
	values := make([]parser.Term, len(p.jsonColumns))
	for i := range values {
		values[i] = &parser.Marker{Index: i}
	}
	return p.bindValues(p.jsonColumns, values, expr.NewEnv(env.Release, p.keyspace, p.table, len(values)))
}

// decodeJSON evaluates the document and returns the bindings of the plan's columns.
func (p *Plan) decodeJSON(b *expr.Bindings) (*expr.Bindings, error) {
	text, state, err := p.json.Eval(b)
	if err != nil {
		return nil, err
	}
	if err := b.Meter.Alloc(expr.JSONMemory(text)); err != nil {
		return nil, err
	}
	if state == expr.Null {
		return nil, dberr.Invalidf("Got null for INSERT JSON values")
	}
	names, values, err := jsonMembers(string(text), p.oldJSON)
	if err != nil {
		return nil, err
	}
	n := len(p.jsonColumns)
	out := &expr.Bindings{Values: make([][]byte, n), Unset: make([]bool, n), Now: b.Now, UUIDs: b.UUIDs}
	for i, c := range p.jsonColumns {
		v, given := values[c.Name]
		delete(values, c.Name)
		if !given {
			out.Unset[i] = p.jsonUnset
			continue
		}
		if v == nil {
			continue
		}
		if out.Values[i], err = c.Type.FromJSON(v); err != nil {
			if bad, ok := errors.AsType[*cqltype.JSONValueError](err); ok {
				err = dberr.Invalidf("Error decoding JSON value for %s: %s", c.Name, bad.Text(p.oldJSON))
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

// jsonMembers parses the document. Names are converted to column names: unquoted names are in lower case. If old is
// true, errors have the texts of Cassandra 4.0.
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
