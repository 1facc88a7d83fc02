// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"bytes"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// TestRangeText checks that the relations for an interval of clustering keys select the rows of the interval. The test
// covers columns of fixed and variable length in both directions.
func TestRangeText(t *testing.T) {
	table := func(columns ...*schema.Column) *schema.Table { return &schema.Table{Clustering: columns} }
	column := func(name string, kind cqltype.Kind, desc bool) *schema.Column {
		return &schema.Column{Name: name, Type: cqltype.Native(kind), Desc: desc}
	}
	number := func(n int64) []byte {
		v, _ := cqltype.Native(cqltype.Int).Kind.FromInt64(n)
		return v
	}
	ints := table(column("a", cqltype.Int, false), column("B", cqltype.Int, true), column("c", cqltype.Int, true))
	texts := table(column("a", cqltype.Text, false), column("b", cqltype.Text, true))
	ids := table(column("u", cqltype.UUID, true), column("x", cqltype.Blob, false))
	all := bytes.Repeat([]byte{0xff}, 16)
	for _, tc := range []struct {
		t        *schema.Table
		prefix   [][]byte
		values   [][]byte
		above    bool
		included bool
		want     string
	}{
		{ints, nil, [][]byte{number(2)}, true, true, `a >= 2`},
		{ints, nil, [][]byte{number(255)}, true, false, `a > 255`},
		{ints, nil, [][]byte{number(-1)}, false, false, `a <= -2`},
		{ints, nil, [][]byte{number(-1)}, false, true, `a <= -1`},
		{ints, [][]byte{number(1)}, [][]byte{number(3)}, true, true, `a = 1 AND "B" >= 3`},
		{ints, [][]byte{number(1)}, [][]byte{number(3)}, false, true, `a = 1 AND "B" <= 3`},
		{ints, [][]byte{number(1)}, [][]byte{number(3), number(4)}, false, true, `a = 1 AND ("B", c) <= (3, 4)`},
		{texts, nil, [][]byte{[]byte("it's")}, true, false, `a > 'it''s'`},
		{texts, nil, [][]byte{{}}, true, false, `a > ''`},
		{texts, [][]byte{[]byte("x")}, [][]byte{[]byte("y\x00")}, false, true, "a = 'x' AND b <= 'y\x00'"},
		{texts, [][]byte{[]byte("x")}, [][]byte{[]byte("y")}, true, false, `a = 'x' AND b > 'y'`},
		{ids, nil, [][]byte{all}, false, true, `u <= ffffffff-ffff-ffff-ffff-ffffffffffff`},
		{ids, nil, [][]byte{make([]byte, 16)}, true, false, `u >= 00000000-0000-0000-0000-000000000001`},
		{ids, [][]byte{all}, [][]byte{{0xff, 0xff}}, true, false,
			`u = ffffffff-ffff-ffff-ffff-ffffffffffff AND x > 0xffff`},
		{ids, [][]byte{all}, nil, true, true, `u = ffffffff-ffff-ffff-ffff-ffffffffffff`},
	} {
		prefix := AppendForms(nil, tc.t.Clustering, tc.prefix)
		list := []command.Slice{PrefixInterval(prefix)}
		if tc.values != nil {
			list = intersect(list, tupleIntervals(prefix, tc.t.Clustering[len(tc.prefix):], tc.values, tc.above,
				tc.included))
		}
		if len(list) != 1 {
			t.Fatalf("%s is %d intervals", tc.want, len(list))
		}
		if got := RangeText(tc.t, list[0].Start, list[0].End); got != tc.want {
			t.Errorf("[%x, %x) is %s, want %s", list[0].Start, list[0].End, got, tc.want)
		}
	}
	if got := RangeText(ints, nil, nil); got != "" {
		t.Errorf("all rows are %s", got)
	}
}
