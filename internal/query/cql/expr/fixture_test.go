// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTable is a table with one column of each type. The names are the same as in the recordings.
var testTable, testKeyspace = func() (*schema.Table, *schema.Keyspace) {
	u := cqltype.UDTOf("ks", "addr", []string{"street", "zip"}, []*cqltype.Type{tText, tInt})
	ks := &schema.Keyspace{Name: "ks", Types: map[string]*cqltype.Type{"addr": u}}
	t := &schema.Table{Keyspace: "ks", Name: "t", ByName: map[string]*schema.Column{}}
	add := func(name string, typ *cqltype.Type) {
		c := &schema.Column{Name: name, Type: typ, Kind: schema.Regular, ID: uint32(len(t.ByName) + 1)}
		if name == "k" {
			c.Kind = schema.PartitionKey
			t.PartitionKey = append(t.PartitionKey, c)
		}
		t.ByName[name] = c
	}
	add("k", tInt)
	for name, typ := range map[string]*cqltype.Type{
		"a": tTinyint, "b": tSmallint, "c": tInt, "d": tBigint, "e": tFloat, "f": tDouble, "g": tVarint,
		"h": tDecimal, "n": tCounter, "s": tText, "x": tBlob, "ts": tTimestamp, "da": tDate, "ti": tTime, "id": tUUID,
		"tu": tTimeuuid,
		"l":  cqltype.ListOf(tInt), "st": cqltype.SetOf(tText), "m": cqltype.MapOf(tText, tInt), "u": u,
		"fu": u.Freeze(), "i": cqltype.Native(cqltype.Inet),
		"fl": cqltype.ListOf(tInt).Freeze(), "z": tInt,
	} {
		add(name, typ)
	}
	return t, ks
}()

// testRow holds the values of the columns as CQL constants. The value of column z is null.
var testRow = map[string]string{
	"k": "1", "a": "1", "b": "2", "c": "3", "d": "4", "e": "5.5", "f": "6.5", "g": "7", "h": "8.25", "n": "5",
	"s": "'żółw'", "x": "0x00000007", "ts": "'2011-02-03 04:05:06.789+0000'", "da": "'2011-02-03'",
	"ti": "'04:05:06.789'",
	"id": "123e4567-e89b-12d3-a456-426614174000", "tu": "50554d6e-29bb-11e5-b345-feff819cdc9f", "l": "[3, 1]",
	"st": "{'b', 'a'}",
	"m":  "{'x': 1, 'y': 2, 'z': 3}", "u": "{street: 'Main', zip: 5}", "fu": "{zip: 7}", "i": "'10.0.0.1'", "fl": "[9]",
}

// testScope assigns slots to the columns of testTable.
type testScope struct {
	slots []*schema.Column
}

func (s *testScope) Column(name parser.Ident) (int, *cqltype.Type, error) {
	c := testTable.ByName[name.Name]
	if c == nil {
		return 0, nil, dberr.Invalidf("Undefined column name %s in table ks.t", cqltype.QuoteName(name.Name))
	}
	for i, have := range s.slots {
		if have == c {
			return i, c.Type, nil
		}
	}
	s.slots = append(s.slots, c)
	return len(s.slots) - 1, c.Type, nil
}

func (s *testScope) CellMeta(parser.CellMetaKind, parser.Ident) (int, *cqltype.Type, error) {
	return 0, nil, dberr.Invalidf("no writetime here")
}

func (s *testScope) CellMetas(parser.CellMetaKind, parser.Ident) (CellMetas, error) {
	return CellMetas{}, dberr.Invalidf("no writetime here")
}

func (s *testScope) row(t *testing.T) [][]byte {
	t.Helper()
	row := make([][]byte, len(s.slots))
	for i, c := range s.slots {
		if text := testRow[c.Name]; text != "" {
			row[i] = mustValue(t, text, c.Type)
		}
	}
	return row
}

var testNow = time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC)

func testBindings() *Bindings {
	return &Bindings{Now: testNow, UUIDs: cqltype.NewTimeUUIDs([6]byte{1, 2, 3, 4, 5, 6}, 7)}
}

func mustTerm(t testing.TB, text string) (parser.Term, int) {
	t.Helper()
	term, markers, err := parser.ParseTerm(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return term, len(markers)
}

func mustValue(t testing.TB, text string, typ *cqltype.Type) []byte {
	t.Helper()
	term, n := mustTerm(t, text)
	bound, err := Bind(term, Receiver{Name: "v", Type: typ}, testEnv(n))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	v, _, err := bound.Eval(testBindings())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func mustType(t testing.TB, text string) *cqltype.Type {
	t.Helper()
	n, err := parser.ParseType(text)
	if err != nil {
		t.Fatal(err)
	}
	typ, err := testEnv(0).ResolveType(n)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// selectors parses the SELECT clause of a query.
func selectors(t testing.TB, text string) ([]parser.Selector, int) {
	t.Helper()
	stmt, markers, err := parser.Parse("SELECT " + text + " FROM ks.t")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return stmt.(*parser.Select).Selectors, len(markers)
}

func formatError(err error) string {
	if f, ok := errors.AsType[*dberr.FunctionFailure](err); ok {
		return fmt.Sprintf("function failure %s.%s%v: %s", f.Keyspace, f.Function, f.ArgTypes, f.Message)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*dberr.") + ": " + err.Error()
}

// testEnv returns an environment with Cassandra 4.0 behavior and the given number of markers.
func testEnv(markers int) *Env { return NewEnv(compat.Cassandra40, testKeyspace, testTable, markers) }
