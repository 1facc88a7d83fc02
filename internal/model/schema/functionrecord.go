// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

type functionJSON struct {
	Keyspace  string         `json:"keyspace"`
	Name      string         `json:"name"`
	Args      []*TypeSpec    `json:"args"`
	Returns   *TypeSpec      `json:"returns"`
	ArgNames  []string       `json:"arg_names,omitempty"`
	Nulls     bool           `json:"nulls,omitempty"`
	Language  string         `json:"language,omitempty"`
	Body      string         `json:"body,omitempty"`
	Aggregate *aggregateJSON `json:"aggregate,omitempty"`

	rest rest
}

type aggregateJSON struct {
	StateFunc string    `json:"state_func"`
	FinalFunc string    `json:"final_func,omitempty"`
	State     *TypeSpec `json:"state"`
	// Initial is null, or the value in base64.
	Initial []byte `json:"initial"`
}

// objectKey returns the key of a function's object. The key consists of the keyspace, whose name contains no slash,
// and the function's key.
func (f *Function) objectKey() string { return functionPrefix + f.Keyspace + "/" + f.key() }

// FunctionsOfObject returns the keyspace of the function that an object key identifies. ok is false if the key does not
// belong to a function.
func FunctionsOfObject(key string) (keyspace string, ok bool) {
	path, ok := strings.CutPrefix(key, functionPrefix)
	keyspace, _, _ = strings.Cut(path, "/")
	return keyspace, ok
}

// droppedFunctions returns the object keys of the dropped functions of a keyspace. now is nil if the keyspace was
// dropped.
func droppedFunctions(old, now *Keyspace) []string {
	var gone []string
	for _, f := range old.Functions {
		has := func(g *Function) bool { return g.objectKey() == f.objectKey() }
		if now == nil || !slices.ContainsFunc(now.Functions, has) {
			gone = append(gone, f.objectKey())
		}
	}
	return gone
}

func (f *Function) encode() functionJSON {
	j := functionJSON{Keyspace: f.Keyspace, Name: f.Name, Args: []*TypeSpec{}, Returns: SpecOf(f.Returns),
		ArgNames: f.ArgNames, Nulls: f.Nulls, Language: f.Language, Body: f.Body, rest: f.rest}
	for _, t := range f.Args {
		j.Args = append(j.Args, SpecOf(t))
	}
	if a := f.Aggregate; a != nil {
		j.Aggregate = &aggregateJSON{StateFunc: a.StateFunc, FinalFunc: a.FinalFunc, State: SpecOf(a.State),
			Initial: a.Initial}
	}
	return j
}

func (s *Schema) decodeFunction(j *functionJSON) error {
	ks := s.Keyspaces[j.Keyspace]
	if ks == nil {
		return fmt.Errorf("no such keyspace")
	}
	f := &Function{Keyspace: j.Keyspace, Name: j.Name, ArgNames: j.ArgNames, Nulls: j.Nulls, Language: j.Language,
		Body: j.Body, rest: j.rest}
	var err error
	if f.Args, err = bindAll(ks, j.Args); err != nil {
		return err
	}
	if f.Returns, err = j.Returns.Bind(ks.Name, ks.Types); err != nil {
		return err
	}
	if a := j.Aggregate; a != nil {
		state, err := a.State.Bind(ks.Name, ks.Types)
		if err != nil {
			return err
		}
		f.Aggregate = &Aggregate{StateFunc: a.StateFunc, FinalFunc: a.FinalFunc, State: state, Initial: a.Initial}
	} else if len(f.ArgNames) != len(f.Args) {
		return fmt.Errorf("%d names for %d arguments", len(f.ArgNames), len(f.Args))
	}
	at, _ := slices.BinarySearchFunc(ks.Functions, f, compareFunctions)
	ks.Functions = slices.Insert(ks.Functions, at, f)
	return nil
}

// unmarshalFunction is the equivalent of unmarshalTable for functions.
func unmarshalFunction(b []byte) (j functionJSON, err error) {
	if unmarshalStrict(b, &j) {
		return j, nil
	}
	j = functionJSON{}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, err
	}
	j.rest, err = restOf(b, j)
	return j, err
}

// MarshalJSON returns the stored form of the function.
func (j functionJSON) MarshalJSON() ([]byte, error) {
	type plain functionJSON
	return marshalWith(plain(j), j.rest)
}
