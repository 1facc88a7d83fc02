// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// rest holds, by name, the unknown members of a descriptor's JSON object. A later build has added these members. If
// this build changes the descriptor, it stores these members again.
type rest map[string]json.RawMessage

// restOf returns the members of a JSON object for which the struct known has no field.
func restOf(object []byte, known any) (rest, error) {
	var r rest
	if err := json.Unmarshal(object, &r); err != nil {
		return nil, err
	}
	for f := range fieldsOf(reflect.TypeOf(known)) {
		delete(r, f)
	}
	if len(r) == 0 {
		return nil, nil
	}
	return r, nil
}

// fieldsOf yields the JSON names of the fields of a struct.
func fieldsOf(t reflect.Type) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			if f.IsExported() && !yield(name) {
				return
			}
		}
	}
}

// marshalWith returns the JSON object of a struct, followed by the members of r in the order of their names.
func marshalWith(plain any, r rest) ([]byte, error) {
	b, err := json.Marshal(plain)
	if err != nil || len(r) == 0 {
		return b, err
	}
	b = b[:len(b)-1]
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), r[name]...)
	}
	return append(b, '}'), nil
}

// unmarshalStrict decodes an object. strict is false if the object has a member that this build does not know.
func unmarshalStrict(b []byte, v any) (strict bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v) == nil
}

// unmarshalTable decodes the object of a table. If this build does not support all members of the object, the function
// decodes the object again and preserves the unknown members. This case is rare.
func unmarshalTable(b []byte) (j tableJSON, err error) {
	if unmarshalStrict(b, &j) {
		return j, nil
	}
	j = tableJSON{}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, err
	}
	var parts struct {
		Columns, Dropped, Indexes []json.RawMessage
		Options, Container        json.RawMessage
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return j, err
	}
	keep := func(to *rest, object []byte, known any) {
		if err == nil && len(object) > 0 {
			*to, err = restOf(object, known)
		}
	}
	keep(&j.rest, b, j)
	keep(&j.Options.rest, parts.Options, j.Options)
	if j.Container != nil {
		keep(&j.Container.rest, parts.Container, *j.Container)
	}
	for i, o := range parts.Columns {
		keep(&j.Columns[i].rest, o, j.Columns[i])
	}
	for i, o := range parts.Dropped {
		keep(&j.Dropped[i].rest, o, j.Dropped[i])
	}
	for i, o := range parts.Indexes {
		keep(&j.Indexes[i].rest, o, j.Indexes[i])
	}
	return j, err
}

// unmarshalKeyspace is the equivalent of unmarshalTable for a keyspace and its types.
func unmarshalKeyspace(b []byte) (j keyspaceJSON, err error) {
	if unmarshalStrict(b, &j) {
		return j, nil
	}
	j = keyspaceJSON{}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, err
	}
	var parts struct{ Types []json.RawMessage }
	if err := json.Unmarshal(b, &parts); err != nil {
		return j, err
	}
	if j.rest, err = restOf(b, j); err != nil {
		return j, err
	}
	for i, o := range parts.Types {
		if j.Types[i].rest, err = restOf(o, j.Types[i]); err != nil {
			return j, err
		}
	}
	return j, nil
}

// MarshalJSON returns the object with its preserved members.

func (j tableJSON) MarshalJSON() ([]byte, error) {
	type plain tableJSON
	return marshalWith(plain(j), j.rest)
}

func (j columnJSON) MarshalJSON() ([]byte, error) {
	type plain columnJSON
	return marshalWith(plain(j), j.rest)
}

func (j indexJSON) MarshalJSON() ([]byte, error) {
	type plain indexJSON
	return marshalWith(plain(j), j.rest)
}

func (j keyspaceJSON) MarshalJSON() ([]byte, error) {
	type plain keyspaceJSON
	return marshalWith(plain(j), j.rest)
}

func (j userTypeJSON) MarshalJSON() ([]byte, error) {
	type plain userTypeJSON
	return marshalWith(plain(j), j.rest)
}

func (j rootJSON) MarshalJSON() ([]byte, error) {
	type plain rootJSON
	return marshalWith(plain(j), j.rest)
}

// MarshalJSON returns the stored form of the descriptor.
func (c Container) MarshalJSON() ([]byte, error) {
	type plain Container
	return marshalWith(plain(c), c.rest)
}

// MarshalJSON returns the stored form of the options.
func (o TableOptions) MarshalJSON() ([]byte, error) {
	type plain TableOptions
	return marshalWith(plain(o), o.rest)
}
