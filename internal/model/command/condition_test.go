// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

var (
	intType  = &cqltype.Type{Kind: cqltype.Int}
	textType = &cqltype.Type{Kind: cqltype.Text}
	bigType  = &cqltype.Type{Kind: cqltype.Bigint}
	listType = &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{intType}}
	setType  = &cqltype.Type{Kind: cqltype.Set, Elems: []*cqltype.Type{intType}}
	mapType  = &cqltype.Type{Kind: cqltype.Map, Elems: []*cqltype.Type{textType, intType}}
	udtType  = &cqltype.Type{Kind: cqltype.UDT, Keyspace: "ks", Name: "u", Fields: []string{"a", "b"},
		Elems: []*cqltype.Type{intType, textType}}
)

func frozen(t *cqltype.Type) *cqltype.Type {
	f := *t
	f.Frozen = true
	return &f
}

func i32(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func i64(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// multi builds the cells of a multi-cell column from its wire form.
func multi(column uint32, t *cqltype.Type, wire []byte) []row.Cell {
	var out []row.Cell
	n := byte(0)
	for path, value := range row.Elements(t, wire) {
		if value == nil {
			continue
		}
		if t.Kind == cqltype.List {
			n++
			path = []byte{n}
		}
		out = append(out, row.Cell{Column: column, Path: path, Value: value})
	}
	return out
}

func single(column uint32, value []byte) []row.Cell {
	return []row.Cell{{Column: column, Value: value}}
}

// TestCheck checks that conditions behave as in Cassandra 4.0. Each line of the table is a statement of the recorded
// scenarios.
func TestCheck(t *testing.T) {
	var list, set, m, u []byte
	list = listType.AppendCollection(nil, i32(1), i32(2), i32(3))
	set = setType.AppendCollection(nil, i32(5))
	m = mapType.AppendCollection(nil, []byte("c"), i32(3), []byte("d"), i32(4))
	u = udtType.AppendTuple(nil, i32(1), []byte("x"))
	empty := listType.AppendCollection(nil)
	field := func(i byte) []byte { return []byte{0, i} }
	is := func(op Operator, t *cqltype.Type, values ...[]byte) Condition {
		return Condition{Operator: op, Type: t, Column: 1, Values: values}
	}
	at := func(element []byte, c Condition) Condition {
		c.Element = element
		return c
	}
	null := [][]byte{nil}[0]
	for _, tc := range []struct {
		name  string
		cells []row.Cell // nil if the row does not exist
		c     Condition
		want  bool
		err   string
	}{
		{"v = 1", single(1, i32(1)), is(Equal, intType, i32(1)), true, ""},
		{"v = 2", single(1, i32(1)), is(Equal, intType, i32(2)), false, ""},
		{"v = null on a value", single(1, i32(1)), is(Equal, intType, null), false, ""},
		{"v = null on another column", single(2, i32(1)), is(Equal, intType, null), true, ""},
		{"v = null on no row", nil, is(Equal, intType, null), true, ""},
		{"v = 1 on no row", nil, is(Equal, intType, i32(1)), false, ""},
		{"v != 1 on no row", nil, is(NotEqual, intType, i32(1)), true, ""},
		{"v != null on no row", nil, is(NotEqual, intType, null), false, ""},
		{"v != null", single(1, i32(1)), is(NotEqual, intType, null), true, ""},
		{"v > 0", single(1, i32(1)), is(Greater, intType, i32(0)), true, ""},
		{"v > -1, signed", single(1, i32(1)), is(Greater, intType, i32(-1)), true, ""},
		{"v >= 1", single(1, i32(1)), is(GreaterOrEqual, intType, i32(1)), true, ""},
		{"v < 1", single(1, i32(1)), is(Less, intType, i32(1)), false, ""},
		{"v <= 1", single(1, i32(1)), is(LessOrEqual, intType, i32(1)), true, ""},
		{"v < 1 on no row", nil, is(Less, intType, i32(1)), false, ""},
		{"v > null", single(1, i32(1)), is(Greater, intType, null), false,
			`Invalid comparison with null for operator ">"`},
		{"v <= null on no row", nil, is(LessOrEqual, intType, null), false,
			`Invalid comparison with null for operator "<="`},
		{"v IN (1, 2)", single(1, i32(1)), is(In, intType, i32(2), i32(1)), true, ""},
		{"v IN ()", single(1, i32(1)), is(In, intType), false, ""},
		{"v IN (null, 7)", nil, is(In, intType, null, i32(7)), true, ""},
		{"v IN (7)", nil, is(In, intType, i32(7)), false, ""},
		{"EXISTS", single(9, i32(1)), Condition{Operator: Exists}, true, ""},
		{"EXISTS on no row", nil, Condition{Operator: Exists}, false, ""},
		{"NOT EXISTS", single(9, i32(1)), Condition{Operator: NotExists}, false, ""},
		{"NOT EXISTS on no row", nil, Condition{Operator: NotExists}, true, ""},

		{"l = [1, 2, 3]", multi(1, listType, list), is(Equal, listType, list), true, ""},
		{"l = [9]", multi(1, listType, list), is(Equal, listType, listType.AppendCollection(nil, i32(9))), false, ""},
		{"l < [1, 3]", multi(1, listType, list), is(Less, listType, listType.AppendCollection(nil, i32(1), i32(3))),
			true, ""},
		{"l > [1, 2], the longer is greater", multi(1, listType, list),
			is(Greater, listType, listType.AppendCollection(nil, i32(1), i32(2))), true, ""},
		{"l = null", multi(1, listType, list), is(Equal, listType, null), false, ""},
		{"l = null on no row", nil, is(Equal, listType, null), true, ""},
		{"l = [] on no row", nil, is(Equal, listType, empty), true, ""},
		{"l < [1] on no row: an absent list is not less", nil,
			is(Less, listType, listType.AppendCollection(nil, i32(1))), false, ""},
		{"l IN ([5], [1, 2, 3])", multi(1, listType, list), is(In, listType, empty, list), true, ""},
		{"l[0] = 1", multi(1, listType, list), at(i32(0), is(Equal, intType, i32(1))), true, ""},
		{"l[0] > 5", multi(1, listType, list), at(i32(0), is(Greater, intType, i32(5))), false, ""},
		{"l[10] = 1", multi(1, listType, list), at(i32(10), is(Equal, intType, i32(1))), false, ""},
		{"l[10] = null", multi(1, listType, list), at(i32(10), is(Equal, intType, null)), true, ""},
		{"l[-1] = null", multi(1, listType, list), at(i32(-1), is(Equal, intType, null)), false,
			"Invalid negative list index -1"},
		{"f[1] = 2, frozen", single(1, list), at(i32(1), is(Equal, intType, i32(2))), true, ""},
		{"f[7] = null, frozen", single(1, list), at(i32(7), is(Equal, intType, null)), true, ""},
		{"f[7] = null, frozen, no row", nil, at(i32(7), is(Equal, intType, null)), true, ""},
		{"s = {5}", multi(1, setType, set), is(Equal, setType, set), true, ""},
		{"s > {1}", multi(1, setType, set), is(Greater, setType, setType.AppendCollection(nil, i32(1))), true, ""},
		{"m = {...}", multi(1, mapType, m), is(Equal, mapType, m), true, ""},
		{"m['c'] = 3", multi(1, mapType, m), at([]byte("c"), is(Equal, intType, i32(3))), true, ""},
		{"m['nosuch'] = null", multi(1, mapType, m), at([]byte("nosuch"), is(Equal, intType, null)), true, ""},
		{"m['d'] IN (4, 5)", multi(1, mapType, m), at([]byte("d"), is(In, intType, i32(4), i32(5))), true, ""},
		{"m['c'] = 3, frozen", single(1, m), at([]byte("c"), is(Equal, intType, i32(3))), true, ""},
		{"m['x'] != 3, frozen", single(1, m), at([]byte("x"), is(NotEqual, intType, i32(3))), true, ""},
		{"u = {a: 1, b: 'x'}", multi(1, udtType, u), is(Equal, udtType, u), true, ""},
		{"u = null on no row", nil, is(Equal, udtType, null), true, ""},
		{"u < {...} on no row: an absent user type is null", nil, is(Less, udtType, u), false, ""},
		{"u.a = 1", multi(1, udtType, u), at(field(0), is(Equal, intType, i32(1))), true, ""},
		{"u.b = 'y'", multi(1, udtType, u), at(field(1), is(Equal, textType, []byte("y"))), false, ""},
		{"f.b = 'x', frozen", single(1, u), at(field(1), is(Equal, textType, []byte("x"))), true, ""},
		{"l CONTAINS 2", multi(1, listType, list), is(Contains, listType, i32(2)), true, ""},
		{"s CONTAINS 6", multi(1, setType, set), is(Contains, setType, i32(6)), false, ""},
		{"s CONTAINS 5, frozen", single(1, set), is(Contains, frozen(setType), i32(5)), true, ""},
		{"m CONTAINS 4", multi(1, mapType, m), is(Contains, mapType, i32(4)), true, ""},
		{"m CONTAINS KEY 'd'", multi(1, mapType, m), is(ContainsKey, mapType, []byte("d")), true, ""},
		{"m CONTAINS KEY 'e', frozen", single(1, m), is(ContainsKey, frozen(mapType), []byte("e")), false, ""},
		{"s CONTAINS null", multi(1, setType, set), is(Contains, setType, null), false,
			`Invalid comparison with null for operator "CONTAINS"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.c
			if c.Element != nil { // the condition of an element contains the type of the column
				c.Type = columnOf(tc.cells, c)
			}
			found := []*row.Row{nil}
			if tc.cells != nil {
				found[0] = &row.Row{Cells: tc.cells}
			}
			ok, err := Check(&Conditional{Rows: []RowRef{{}}, Conditions: []Condition{c}}, found)
			checkInvalid(t, err, tc.err)
			if ok != tc.want {
				t.Errorf("got %v, want %v", ok, tc.want)
			}
		})
	}
	one, two := is(Equal, intType, i32(1)), is(Equal, intType, i32(2))
	if ok, err := Check(&Conditional{Conditions: []Condition{one, two}}, []*row.Row{{Cells: single(1, i32(1))}}); ok ||
		err != nil {
		t.Error("v = 1 AND v = 2 holds")
	}
	if ok, err := Check(&Conditional{}, nil); !ok || err != nil {
		t.Error("no conditions do not hold")
	}
}

// columnOf guesses the type of the column whose element a table line selects.
func columnOf(cells []row.Cell, c Condition) *cqltype.Type {
	var t *cqltype.Type
	switch {
	case len(c.Element) == 4:
		t = listType
	case len(c.Element) == 2:
		t = udtType
	default:
		t = mapType
	}
	if len(cells) == 0 || cells[0].Path == nil {
		t = frozen(t)
	}
	return t
}

func checkInvalid(t *testing.T, err error, want string) {
	t.Helper()
	var invalid *dberr.Invalid
	if want == "" && err != nil || want != "" && (!errors.As(err, &invalid) || invalid.Message != want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestCheckMalformed checks that a malformed condition is an error instead of a panic.
func TestCheckMalformed(t *testing.T) {
	for _, c := range []Condition{
		{Row: 1, Operator: Exists},
		{Operator: Equal, Type: intType, Element: i32(0), Values: [][]byte{i32(1)}},
		{Operator: Equal, Type: udtType, Element: []byte{0, 9}, Values: [][]byte{i32(1)}},
		{Operator: Equal, Type: udtType, Element: []byte{9}, Values: [][]byte{i32(1)}},
		{Operator: Contains, Type: intType, Values: [][]byte{i32(1)}},
		{Operator: ContainsKey, Type: setType, Values: [][]byte{i32(1)}},
		{Operator: 99, Type: intType, Values: [][]byte{i32(1)}},
	} {
		if _, err := Check(&Conditional{Conditions: []Condition{c}},
			[]*row.Row{{Cells: single(0, i32(1))}}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestResolve checks that updates become operands. The merge of the operands with the found rows must equal
// Cassandra's result.
func TestResolve(t *testing.T) {
	const stamp = 1000
	list := listType.AppendCollection(nil, i32(10), i32(11), i32(10))
	up := func(k UpdateKind, args ...[]byte) Update {
		return Update{Kind: k, Column: 1, Type: listType, Args: args, Timestamp: row.Unstamped, Expiry: row.NoExpiry}
	}
	add := func(column uint32, delta int64) Update {
		return Update{Kind: CounterAdd, Column: column, Type: bigType, Args: [][]byte{i64(delta)}, Timestamp: 5}
	}
	other := func(u Update) Update {
		u.Statement = 1
		return u
	}
	type cell struct {
		Column uint32
		Path   string
		Value  string
	}
	for _, tc := range []struct {
		name    string
		found   []row.Cell
		updates []Update
		want    []cell
		err     string
	}{
		{"set", multi(1, listType, list), []Update{up(ListSetAt, i32(1), i32(7))},
			[]cell{{1, "\x01", string(i32(10))}, {1, "\x02", string(i32(7))}, {1, "\x03", string(i32(10))}}, ""},
		{"set to null", multi(1, listType, list), []Update{up(ListSetAt, i32(1), nil)},
			[]cell{{1, "\x01", string(i32(10))}, {1, "\x03", string(i32(10))}}, ""},
		{"delete", multi(1, listType, list), []Update{up(ListDeleteAt, i32(0))},
			[]cell{{1, "\x02", string(i32(11))}, {1, "\x03", string(i32(10))}}, ""},
		{"discard", multi(1, listType, list), []Update{up(ListDiscard, i32(10), i32(99))},
			[]cell{{1, "\x02", string(i32(11))}}, ""},
		{"discard from nothing", nil, []Update{up(ListDiscard, i32(10))}, nil, ""},
		{"set in nothing", nil, []Update{up(ListSetAt, i32(0), i32(7))}, nil,
			"Attempted to set an element on a list which is null"},
		{"delete in nothing", nil, []Update{up(ListDeleteAt, i32(0))}, nil,
			"Attempted to delete an element from a list which is null"},
		{"set behind the end", multi(1, listType, list), []Update{up(ListSetAt, i32(3), i32(7))}, nil,
			"List index 3 out of bound, list has size 3"},
		{"delete before the beginning", multi(1, listType, list), []Update{up(ListDeleteAt, i32(-1))}, nil,
			"List index -1 out of bound, list has size 3"},
		{"null index", multi(1, listType, list), []Update{up(ListDeleteAt, nil)}, nil,
			"Invalid null value for list index"},
		{
			"set twice, the larger value wins", multi(1, listType, list),
			[]Update{up(ListSetAt, i32(0), i32(9)), up(ListSetAt, i32(0), i32(6))},
			[]cell{{1, "\x01", string(i32(9))}, {1, "\x02", string(i32(11))}, {1, "\x03", string(i32(10))}},
			"",
		},
		{"delete twice", multi(1, listType, list), []Update{up(ListDeleteAt, i32(0)), up(ListDeleteAt, i32(0))},
			[]cell{{1, "\x03", string(i32(10))}}, ""},
		{
			"append, then set what was appended", multi(1, listType, list),
			[]Update{up(ListPut, []byte("\x04"), i32(1)), up(ListSetAt, i32(3), i32(7))},
			[]cell{{1, "\x01", string(i32(10))}, {1, "\x02", string(i32(11))}, {1, "\x03", string(i32(10))},
				{1, "\x04", string(i32(7))}},
			"",
		},
		{
			"set before the append", multi(1, listType, list),
			[]Update{up(ListSetAt, i32(3), i32(7)), up(ListPut, []byte("\x04"), i32(1))},
			nil,
			"List index 3 out of bound, list has size 3",
		},
		{
			"set, then discard what was set", multi(1, listType, list),
			[]Update{up(ListSetAt, i32(1), i32(7)), up(ListDiscard, i32(7))},
			[]cell{{1, "\x01", string(i32(10))}, {1, "\x03", string(i32(10))}},
			"",
		},
		{"discard, then count what is left", multi(1, listType, list),
			[]Update{up(ListDiscard, i32(10)), up(ListSetAt, i32(0), i32(7))}, []cell{{1, "\x02", string(i32(7))}}, ""},
		{"another statement sees nothing of it", multi(1, listType, list),
			[]Update{up(ListDiscard, i32(10)), other(up(ListSetAt, i32(1), i32(7)))},
			[]cell{{1, "\x02", string(i32(7))}}, ""},
		{"a counter subtracts", single(2, i64(7)), []Update{add(2, 5), add(2, -3)}, []cell{{2, "", string(i64(9))}},
			""},
		{"counter from nothing", nil, []Update{add(2, 5)}, []cell{{2, "", string(i64(5))}}, ""},
		{"counter", single(2, i64(7)), []Update{add(2, -5)}, []cell{{2, "", string(i64(2))}}, ""},
		{"counter twice, and another", single(2, i64(7)), []Update{add(2, 1), add(3, 1), add(2, 1)},
			[]cell{{2, "", string(i64(9))}, {3, "", string(i64(1))}}, ""},
		{"counter wraps", single(2, i64(1<<63-1)), []Update{add(2, 1)}, []cell{{2, "", string(i64(-1 << 63))}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before row.Builder
			before.Reset(10)
			for _, c := range tc.found {
				before.Cell(c.Column, c.Path, c.Value, 0, row.NoExpiry)
			}
			c := &Conditional{Rows: []RowRef{{Clustering: []byte("c")}}, Updates: tc.updates, Now: 1}
			found := []*row.Row{nil}
			if tc.found != nil {
				found[0] = &row.Row{Cells: tc.found}
			}
			for _, at := range []int64{stamp, row.Unstamped} {
				ops, err := Resolve(nil, c, found, at)
				checkInvalid(t, err, tc.err)
				after := before.Append(nil)
				for _, op := range ops {
					if op.Kind != OpRow || string(op.Clustering) != "c" {
						t.Fatalf("operand for %+v", op)
					}
					if at == row.Unstamped {
						row.Stamp(op.Operand, stamp)
					}
					if after, err = row.Merge(nil, after, op.Operand); err != nil {
						t.Fatal(err)
					}
				}
				if tc.err != "" {
					continue
				}
				var r row.Row
				if _, err := r.Resolve(after, row.NotDeleted, 2, nil); err != nil {
					t.Fatal(err)
				}
				var got []cell
				for _, c := range r.Cells {
					got = append(got, cell{c.Column, string(c.Path), string(c.Value)})
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("stamp %d: %s", at, diff)
				}
			}
		})
	}
}

// TestResolveStatic checks that updates of static columns become operands of the header. The operands must be appended
// to the existing operands.
func TestResolveStatic(t *testing.T) {
	c := &Conditional{Rows: []RowRef{{Static: true}},
		Updates: []Update{{Kind: CounterAdd, Column: 2, Type: bigType, Args: [][]byte{i64(1)}}}}
	ops, err := Resolve([]Op{{}}, c, []*row.Row{nil}, 5)
	if err != nil || len(ops) != 2 || ops[1].Kind != OpHeader || ops[1].Clustering != nil {
		t.Fatalf("%+v, %v", ops, err)
	}
}

// TestClientTimestampBesideStamp sets one list element twice in one batch. One write has the client's timestamp, and
// the other has the leader's timestamp. The higher timestamp must win regardless of the order. If both timestamps are
// equal, the larger value must win.
func TestClientTimestampBesideStamp(t *testing.T) {
	set := func(ts int64, value string) Update {
		return Update{Kind: ListSetAt, Column: 1, Args: [][]byte{binary.BigEndian.AppendUint32(nil, 0), []byte(value)},
			Timestamp: ts}
	}
	const stamp = 1000
	found := []*row.Row{{Cells: []row.Cell{{Column: 1, Path: []byte("p"), Value: []byte("old"), Timestamp: 10}}}}
	for _, tc := range []struct {
		name, want string
		updates    []Update
	}{
		{"a later one of the client", "100", []Update{set(2*stamp, "100"), set(row.Unstamped, "50")}},
		{"a later one of the client, second", "100", []Update{set(row.Unstamped, "50"), set(2*stamp, "100")}},
		{"an earlier one of the client", "50", []Update{set(stamp/2, "100"), set(row.Unstamped, "50")}},
		{"an earlier one of the client, second", "50", []Update{set(row.Unstamped, "50"), set(stamp/2, "100")}},
		{"the same", "7", []Update{set(row.Unstamped, "7"), set(stamp, "100")}},
		{"two of the client", "2", []Update{set(3*stamp, "2"), set(row.Unstamped, "3"), set(2*stamp, "1")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Conditional{Rows: []RowRef{{}}, Updates: tc.updates, Now: 1}
			ops, err := Resolve(nil, c, found, row.Unstamped)
			if err != nil {
				t.Fatal(err)
			}
			var m row.Merger
			m.Reset()
			for _, op := range ops {
				row.Stamp(op.Operand, stamp)
				if err := m.Add(op.Operand); err != nil {
					t.Fatal(err)
				}
			}
			var r row.Row
			if _, err := r.Resolve(m.Append(nil), row.NotDeleted, 2, nil); err != nil {
				t.Fatal(err)
			}
			if len(r.Cells) != 1 || string(r.Cells[0].Value) != tc.want {
				t.Errorf("cells %+v, want the value %s", r.Cells, tc.want)
			}
		})
	}
}
