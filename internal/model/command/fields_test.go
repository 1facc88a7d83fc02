// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/row"
)

// laterField is the number of a field that no build supports.
const laterField = 77

// withField inserts a field into encoded bytes in place of their empty list of fields. at is the offset of the list.
// The offset is relative to the start or, if negative, to the end.
func withField(b []byte, at int, must bool) []byte {
	if at < 0 {
		at += len(b)
	}
	w := codec.Writer(bytes.Clone(b[:at]))
	w.Field(laterField, must, []byte("of a later build"))
	return append(w, b[at:]...)
}

// TestFieldsOfLaterBuilds checks that a decoder skips an unknown optional field. The decoder must reject an unknown
// required field as newer and must name the field's number. Neither is treated as corruption.
func TestFieldsOfLaterBuilds(t *testing.T) {
	m := Mutation{Table: 600, Token: -5, Key: []byte("k"), Epoch: 2}
	entry := Entry{Kind: EntryRequire, Epoch: 3, SchemaVersion: 9}
	written := Entry{Kind: EntryWrite, Mutations: []Mutation{m}}
	cond := Conditional{Mutation: m, Now: 4}
	read := Read{Table: 600, Key: []byte("k"), Epoch: 7}
	decision := CASResult{Applied: true, Timestamp: 1, Found: []*row.Row{nil}}
	for _, c := range []struct {
		name string
		b    []byte
		at   int
		back func(b []byte) (any, error)
		want any
	}{
		{"mutation", AppendMutation(nil, &m), -2, func(b []byte) (any, error) {
			var v Mutation
			err := DecodeMutation(&v, b)
			return v, err
		}, m},
		{"write", AppendEntry(nil, &written), -2, func(b []byte) (any, error) {
			var v Entry
			err := DecodeEntry(&v, b)
			return v, err
		}, written},
		{"entry", AppendEntry(nil, &entry), -2, func(b []byte) (any, error) {
			var v Entry
			err := DecodeEntry(&v, b)
			return v, err
		}, entry},
		{"conditional", AppendConditional(nil, &cond), -4, func(b []byte) (any, error) {
			var v Conditional
			err := DecodeConditional(&v, b)
			return v, err
		}, cond},
		{"read", AppendRead(nil, &read), -1, func(b []byte) (any, error) {
			var v Read
			err := DecodeRead(&v, b)
			return v, err
		}, read},
		{"decision", AppendCASResult(nil, &decision), 4, func(b []byte) (any, error) {
			var v CASResult
			err := DecodeCASResult(&v, b)
			return v, err
		}, decision},
	} {
		got, err := c.back(withField(c.b, c.at, false))
		if diff := gocmp.Diff(c.want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s with a field that may be passed over: %v\n%s", c.name, err, diff)
		}
		_, err = c.back(withField(c.b, c.at, true))
		if !errors.Is(err, feature.ErrNewer) || errors.Is(err, ErrMalformed) ||
			!strings.Contains(err.Error(), "field 77") {
			t.Errorf("%s with a field that must be understood: %v", c.name, err)
		}
		if _, err = c.back(withField(withField(c.b, c.at, false), c.at, false)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with one field twice: %v", c.name, err)
		}
	}
}

// TestKindsOfLaterBuilds checks that entries, operands, and conditions of unknown kinds are rejected as newer. The
// error must name the kind. For a command of the previous version, the error must contain the version number.
func TestKindsOfLaterBuilds(t *testing.T) {
	var e Entry
	for text, b := range map[string][]byte{
		"a log entry was written by a newer version of Ilion (kind 99)": {Version, byte(kindEntry), 99, 1, 0, 5, 5},
		"a mutation was written by a newer version of Ilion (operand kind 9)": AppendEntry(nil,
			&Entry{Kind: EntryWrite, Mutations: []Mutation{{Ops: []Op{{Kind: 9}, {}}}}}),
		"a command was written by a newer version of Ilion (version 3)": {Version + 1, byte(kindEntry), 1, 1},
		"a condition was written by a newer version of Ilion (operator 12)": AppendConditional(nil,
			&Conditional{Rows: []RowRef{{}}, Conditions: []Condition{{Operator: 12, Element: []byte("1234")}}}),
		"a read was written by a newer version of Ilion (flags 128); this": append([]byte{Version, byte(kindRead), 128},
			AppendRead(nil, &Read{})[3:]...),
		"an update was written by a newer version of Ilion (kind 88)": AppendConditional(nil,
			&Conditional{Rows: []RowRef{{}}, Updates: []Update{{Kind: 88, Args: [][]byte{[]byte("12345")}}}}),
		"a type was written by a newer version of Ilion (kind 100)": AppendConditional(nil,
			&Conditional{Rows: []RowRef{{}},
				Updates: []Update{{Type: &cqltype.Type{Kind: 100}, Args: [][]byte{[]byte("12345")}}}}),
		"unsupported command version 1": {1, byte(kindEntry), 1, 1},
	} {
		err := DecodeEntry(&e, b)
		switch kind(b[1]) {
		case kindConditional:
			err = DecodeConditional(&Conditional{}, b)
		case kindRead:
			err = DecodeRead(&Read{}, b)
		}
		if err == nil || !strings.HasPrefix(err.Error(), text) ||
			errors.Is(err, feature.ErrNewer) != strings.Contains(text, "newer") {
			t.Errorf("%v, want %s", err, text)
		}
	}
}
