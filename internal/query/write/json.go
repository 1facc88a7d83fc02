// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// bindInsertJSON binds INSERT JSON as the INSERT of all columns, whose values are markers that the document fills.
func (p *Plan) bindInsertJSON(s *parser.Insert, env *expr.Env) error {
	if err := p.bindInsertIf(s, env); err != nil {
		return err
	}
	var err error
	if p.json, err = expr.Bind(s.JSON, jsonReceiver, env); err != nil {
		return err
	}
	p.jsonUnset = s.DefaultUnset
	p.jsonColumns = allColumns(p.table)
	values := make([]parser.Term, len(p.jsonColumns))
	for i := range values {
		values[i] = &parser.Marker{Index: i}
	}
	return p.bindValues(p.jsonColumns, values, expr.NewEnv(p.keyspace, p.table, len(values)))
}

// decodeJSON evaluates the document into the bindings that the plan's columns take their values from.
func (p *Plan) decodeJSON(b *expr.Bindings) (*expr.Bindings, error) {
	text, state, err := p.json.Eval(b)
	if err != nil {
		return nil, err
	}
	if state == expr.Null {
		return nil, dberr.Invalidf("Got null for INSERT JSON values")
	}
	names, values, err := jsonMembers(string(text))
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
			if _, ok := errors.AsType[*cqltype.JSONValueError](err); ok {
				err = dberr.Invalidf("Error decoding JSON value for %s: %s", c.Name, err)
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

// jsonMembers parses the document; names are as columns have them: in lower case unless they are in quotes.
func jsonMembers(text string) (names []string, values map[string]any, err error) {
	fail := func(class, message string) error {
		return dberr.Invalidf("Could not decode JSON string as a map: %s: %s. (String was: %s)", class, message, text)
	}
	parsed, err := cqltype.ParseJSON(text)
	if syntax, ok := errors.AsType[*cqltype.JSONError](err); ok {
		return nil, nil, fail(syntax.Class, syntax.Message)
	}
	if err != nil {
		return nil, nil, err
	}
	if parsed == nil {
		return nil, nil, dberr.Invalidf("Got null for INSERT JSON values")
	}
	object, ok := parsed.(*cqltype.JSONObject)
	if !ok {
		return nil, nil, fail("com.fasterxml.jackson.databind.exc.MismatchedInputException",
			"Cannot deserialize instance of `java.util.LinkedHashMap` out of "+jsonToken(parsed)+" token\n at [Source: (String)\""+text+"\"; line: 1, column: 1]")
	}
	values = make(map[string]any, len(object.Names))
	for i, name := range object.Names {
		if n := len(name); n >= 2 && name[0] == '"' && name[n-1] == '"' {
			name = name[1 : n-1]
		} else {
			name = strings.ToLower(name)
		}
		names = append(names, name)
		values[name] = object.Values[i]
	}
	return names, values, nil
}

// jsonToken is the name that Cassandra's JSON library has for what begins a value.
func jsonToken(v any) string {
	switch v := v.(type) {
	case []any:
		return "START_ARRAY"
	case string:
		return "VALUE_STRING"
	case bool:
		if v {
			return "VALUE_TRUE"
		}
		return "VALUE_FALSE"
	}
	return "VALUE_NUMBER_INT"
}
