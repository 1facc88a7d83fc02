// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/hex"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestStoredBytes pins the encoding of one command of each kind. The bytes are stored in logs and sent by nodes of
// other versions.
func TestStoredBytes(t *testing.T) {
	udt := &cqltype.Type{
		Kind:     cqltype.UDT,
		Keyspace: "ks",
		Name:     "u",
		Fields:   []string{"a"},
		Elems:    []*cqltype.Type{{Kind: cqltype.Int}},
		Frozen:   true,
	}
	mapped := &cqltype.Type{Kind: cqltype.Map, Elems: []*cqltype.Type{{Kind: cqltype.Text}, udt}}
	m := entries()[0].Mutations[0]
	m.Retried, m.Known = true, 250
	found := &row.Row{
		Live: true, Liveness: row.Liveness{Timestamp: -9, TTL: 60, Expiry: 1 << 33},
		Cells: []row.Cell{
			{Column: 3, Value: []byte("v"), Timestamp: 8, Expiry: row.NoExpiry},
			{Column: 300, Path: []byte{}, TTL: 5, Expiry: 6},
		},
	}
	log := entries()
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"mutation", AppendMutation(nil, &m),
			"0201d804fffffffffffffffb016b03029a01020100000000000000000000000000000009fa010002000163076f706572616e640200070176"},
		{"conditional", AppendConditional(nil, &Conditional{
			Mutation: Mutation{Table: 1}, Serial: dberr.Consistency(8), First: 1, Now: 77,
			Dropped: []cqltype.Dropped{{Column: 5, Upto: cqltype.AllDropped}, {Column: 600, Upto: cqltype.AllDropped}},
			Rows:    []RowRef{{}, {Static: true}, {Clustering: []byte("c")}},
			Conditions: []Condition{{Row: 2, Operator: Equal, Column: 4, Type: mapped, Element: []byte("e"),
				Values: [][]byte{nil, {}, []byte("x")}}, {Operator: NotExists}},
			Updates: []Update{{Row: 1, Statement: 3, Kind: ListPut, Column: 9, Type: udt,
				Args: [][]byte{[]byte("i")}, Timestamp: -4, TTL: 10, Expiry: 1 << 40}},
		}), "02020100000000000000000000000000000008019a010205d80400030000010000016302020204170e99026b7301750101610c" +
			"02650300010278000100000000010103040999026b7301750101610c0102690714808080808040"},
		{"transaction", AppendConditional(nil, &Conditional{Mutation: Mutation{Table: 1}, Serial: dberr.Serial,
			MaxCharge: 300, Program: []byte("p"), Dry: true}),
			"020201000000000000000000000000000000080000000302ac02050170070000000000"},
		{"logged", AppendConditional(nil, &Conditional{Mutation: Mutation{Table: 1}, Log: &ChangeLog{Keep: 600}}),
			"020201000000000000000000000000000000000000000902d80400000000"},
		{"read", AppendRead(nil, &Read{
			Table: 600, Key: []byte("k"), Token: -5, Range: token.Range{Begin: 3, Limit: 900},
			Resume: Resume{AfterKey: []byte{}, AfterToken: 6, AfterClustering: []byte("after"), AfterPartition: true},
			Slices: []Slice{{[]byte("a"), nil}, {nil, []byte("b")}}, Reversed: true, NoRows: true,
			Index: &IndexLookup{Index: 7, Value: []byte("v")},
			Limit: 5000, Now: -1, Dropped: []cqltype.Dropped{{Column: 2, Upto: cqltype.AllDropped}},
			Level: dberr.Quorum, Epoch: 4,
		}), "02031bd804026bfffffffffffffffb038407010000000000000006066166746572020161000002620701768827010102040400"},
		{"decision", AppendCASResult(nil, &CASResult{Timestamp: 5, Found: []*row.Row{nil, found},
			First: &FoundRow{Clustering: []byte("c"), Row: found}}),
			"0205000a00020001011178808080804002030001761000feffffffffffffffff01ac020100000a0c0101630101117880808080" +
				"4002030001761000feffffffffffffffff01ac020100000a0c"},
		{"decision of a transaction", AppendCASResult(nil, &CASResult{Applied: true, Charge: 9, Result: []byte("r")}),
			"02050100020109040172000000"},
		{"entry: write", AppendEntry(nil, &log[1]),
			"02060100000003d804fffffffffffffffb016b03029a010101000000000000000000000000000000090002000163076f706572" +
				"616e640200070176d8040000000000000000016c000000000000d804fffffffffffffffb016b03029a0101010000000000" +
				"00000000000000000000090002000163076f706572616e640200070176"},
		{"entry: write, step by step", AddWrite(BeginWrite(nil, 2, 1, []byte("r")),
			&Mutation{Table: 600, Key: []byte("k"), Retried: true, Known: 250, Ops: []Op{{Operand: unstamped()}}}, 500),
			"0206010200027201d8040000000000000000016b0000e80700000100000d0000000000000001f401010176"},
		{"entry: sweep", AppendEntry(nil, &log[2]), "0206020300d804180204090201610162"},
		{"entry: sweep of expired rows", AppendEntry(nil, &log[len(log)-3]),
			"02060200070680808080100900d8041800010161"},
		{"entry: sweep of columns dropped by a time", AppendEntry(nil, &log[len(log)-2]),
			"020602030905049a010b0100d804180109010161"},
		{"entry: truncate", AppendEntry(nil, &log[3]), "020603040305d80400010900020102"},
		{"entry: truncate with an ID", AppendEntry(nil, &log[len(log)-1]),
			"0206030405180100000000000000000000000000000000000000000000090000"},
		{"entry: require", AppendEntry(nil, &log[5]), "0206040100808080808020"},
		{"entry: records", AppendEntry(nil, &log[6]), "02060500000402016101016200"},
		{"entry: feature", AppendEntry(nil, &log[7]), "0206060100ac02"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// BenchmarkEntry measures the CPU time to build and decode an entry with a stamped 100-byte write.
func BenchmarkEntry(b *testing.B) {
	m := Mutation{
		Table:         1024,
		Token:         -5,
		Key:           []byte("0123456789abcdef"),
		SchemaVersion: 70,
		Epoch:         3,
		Dedupe:        DedupeID{Coordinator: [16]byte{1}, Sequence: 1 << 40},
	}
	m.Ops = []Op{{Clustering: []byte("12345678"), Operand: make([]byte, 100)}}
	var buf []byte
	b.Run("add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AddWrite(BeginWrite(buf[:0], 3, 1, nil), &m, 1<<50)
		}
	})
	b.Run("decode", func(b *testing.B) {
		var e Entry
		b.ReportAllocs()
		for b.Loop() {
			if err := DecodeEntry(&e, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
