// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// TestProgramRoundTrip checks that decoding a program and a result returns the encoded data, including null, unset, and
// empty values. Data of a newer build must be rejected. The error must contain the newer version.
func TestProgramRoundTrip(t *testing.T) {
	p := &Plan{text: "BEGIN ..", keyspace: "ks", table: &schema.Table{ID: 1030, Revision: 7}}
	b := expr.Bindings{Values: [][]byte{nil, {}, []byte("v")}, Unset: []bool{true, false, false}}
	encoded := appendProgram(p, &b, true, true)
	got, err := decodeProgram(encoded)
	want := programBody{keyspace: "ks", text: "BEGIN ..", table: 1030, revision: 7, now: b.Now.UnixNano(),
		guarded: true,
		clear:   true, values: b.Values, unset: b.Unset}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	a := programResult{rows: 2, cells: []byte("cells"), warnings: []string{"w"}}
	told := a.append(nil)
	if got, err := decodeResult(told); err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%+v, %v", got, err)
	}
	encoded[0]++
	told[0]++
	if _, err := decodeProgram(encoded); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("a newer program: %v", err)
	}
	if _, err := decodeResult(told); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("a newer answer: %v", err)
	}
}

// FuzzProgram checks that the decoders never panic. Encoding and decoding accepted data must return equal data.
func FuzzProgram(f *testing.F) {
	p := &Plan{text: "BEGIN ..", keyspace: "ks", table: &schema.Table{ID: 1030, Revision: 7}}
	f.Add(appendProgram(p, &expr.Bindings{Values: [][]byte{nil, {}, []byte("v")}}, true, false))
	f.Add((&programResult{rows: 2, cells: []byte("cells"), warnings: []string{"w"}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := decodeProgram(b); err == nil {
			bind := got.bindings()
			again := appendProgram(&Plan{text: got.text, keyspace: got.keyspace,
				table: &schema.Table{ID: got.table, Revision: got.revision}}, &bind, got.guarded, got.clear)
			if same, err := decodeProgram(again); err != nil || !reflect.DeepEqual(same, got) {
				t.Fatalf("%+v became %+v, %v", got, same, err)
			}
		}
		if got, err := decodeResult(b); err == nil {
			again := got.append(nil)
			if same, err := decodeResult(again); err != nil || !bytes.Equal(same.append(nil), again) {
				t.Fatalf("%+v became %+v, %v", got, same, err)
			}
		}
	})
}
