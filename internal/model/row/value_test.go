// SPDX-License-Identifier: Apache-2.0

package row

import (
	"bytes"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestValueRoundTrip splits a multi-cell column into cells, merges the cells, and reassembles the column. The value
// must not change.
func TestValueRoundTrip(t *testing.T) {
	text, num := &cqltype.Type{Kind: cqltype.Text}, &cqltype.Type{Kind: cqltype.Int}
	wire := func(n byte, parts ...string) []byte {
		b := []byte{0, 0, 0, n}
		for _, p := range parts {
			b = append(append(b, 0, 0, 0, byte(len(p))), p...)
		}
		return b
	}
	udt := &cqltype.Type{Kind: cqltype.UDT, Elems: []*cqltype.Type{text, num, text}, Fields: []string{"a", "b", "c"}}
	for _, c := range []struct {
		name string
		t    *cqltype.Type
		wire []byte
	}{
		{"set", &cqltype.Type{Kind: cqltype.Set, Elems: []*cqltype.Type{text}}, wire(3, "", "a\x00", "b")},
		{"set of int", &cqltype.Type{Kind: cqltype.Set, Elems: []*cqltype.Type{num}},
			wire(2, "\xff\xff\xff\xff", "\x00\x00\x00\x01")},
		{"map", &cqltype.Type{Kind: cqltype.Map, Elems: []*cqltype.Type{text, num}},
			wire(2, "k", "\x00\x00\x00\x07", "l", "\x00\x00\x00\x08")},
		{"list", &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{text}}, wire(3, "x", "a", "")},
		{"user type", udt, append(append(wire(0, "a")[4:], 0xff, 0xff, 0xff, 0xff), wire(0, "c")[4:]...)},
		{"user type, last field missing", udt, append(wire(0, "a", "\x00\x00\x00\x07")[4:], 0xff, 0xff, 0xff, 0xff)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b Builder
			b.Reset(5)
			n := byte(0)
			for path, value := range Elements(c.t, c.wire) {
				if n++; path == nil {
					path = []byte{n}
				}
				if value != nil {
					b.Cell(1, path, value, 0, 0)
				}
			}
			var r Row
			if _, err := r.Resolve(b.Bytes(), NotDeleted, 0, nil); err != nil {
				t.Fatal(err)
			}
			got, err := AppendValue([]byte("head"), c.t, r.Column(1))
			if err != nil || !bytes.Equal(got, append([]byte("head"), c.wire...)) {
				t.Errorf("%v\ngot  %x\nwant %x", err, got, c.wire)
			}
		})
	}
	if _, err := AppendValue(nil, udt, []Cell{{Column: 1, Path: []byte("?"), Value: []byte{}}}); err == nil {
		t.Error("a path that is not a field was accepted")
	}
}
