// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

func unstamped() []byte {
	var b row.Builder
	b.Reset(row.Unstamped)
	b.Cell(1, nil, []byte("v"), 0, row.NoExpiry)
	return b.Append(nil)
}

func entries() []Entry {
	m := Mutation{
		Table: 600, Token: -5, Key: []byte("k"), SchemaVersion: 3, Epoch: 2, Timestamp: 77,
		Dedupe: DedupeID{Coordinator: [16]byte{1}, Sequence: 9},
		Ops: []Op{{Clustering: []byte("c"), Operand: []byte("operand")},
			{Kind: OpIndex, Index: 7, Value: []byte("v")}},
	}
	return []Entry{
		{Kind: EntryWrite, Epoch: 2, Mutations: []Mutation{m}, Result: []byte{}},
		{Kind: EntryWrite, Mutations: []Mutation{m, {Table: 600, Key: []byte("l")}, m}},
		{Kind: EntrySweep, Sweep: Sweep{Table: 600, Keys: [][]byte{[]byte("a"), []byte("b")}, Horizon: 12,
			Dropped: []cqltype.Dropped{{Column: 4, Upto: cqltype.AllDropped}, {Column: 9, Upto: cqltype.AllDropped}},
		}, Epoch: 3},
		{Kind: EntryTruncate, Epoch: 4, Span: keys.Span{Table: 600, End: []byte{9}}, Indexes: []uint32{1, 2}},
		{Kind: EntryTruncate},
		{Kind: EntryRequire, Epoch: 1, SchemaVersion: 1 << 40},
		{Kind: EntryRecords,
			Records: Records{Expect: 4, Put: []Record{{Key: []byte("a"), Value: []byte{}}, {Key: []byte("b")}}}},
		{Kind: EntryFeature, Epoch: 1, Level: 300},
		{Kind: EntrySplit, Epoch: 1, Split: Split{Child: 300, At: []byte{8, 0}, Leader: [16]byte{3},
			Voters:   []keys.Member{{Replica: 7, Node: [16]byte{3}}, {Replica: 8, Node: [16]byte{4}}},
			Learners: []keys.Member{{Replica: 9, Node: [16]byte{5}}}}},
		{Kind: EntryFreeze, Epoch: 300}, {Kind: EntryUnfreeze, Epoch: 7},
		{Kind: EntryMerge, Epoch: 2, Merge: Merge{Right: 300, Frozen: 1 << 40, RightEpoch: 5}},
		{Kind: EntrySweep, Sweep: Sweep{Table: 600, Keys: [][]byte{[]byte("a")}, Horizon: 12,
			Expired: row.Expired{Own: 1 << 31, Default: -5}}},
		{Kind: EntrySweep, Epoch: 3, Sweep: Sweep{Table: 600, Keys: [][]byte{[]byte("a")}, Horizon: 12,
			Dropped: []cqltype.Dropped{{Column: 4, Upto: 77}, {Column: 9, Upto: cqltype.AllDropped},
				{Column: 11, Upto: -1}}}},
		{Kind: EntryTruncate, Epoch: 4, ID: DedupeID{Coordinator: [16]byte{1}, Sequence: 9}},
	}
}

// TestEntries checks that each entry survives its encoding, even when it is decoded into a used Entry. No prefix of
// the encoding may be accepted.
func TestEntries(t *testing.T) {
	var got Entry
	for i, e := range entries() {
		b := AppendEntry(nil, &e)
		if err := DecodeEntry(&got, b); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if diff := gocmp.Diff(e, got, cmpopts.EquateEmpty()); diff != "" || (got.Result == nil) != (e.Result == nil) {
			t.Errorf("entry %d:\n%s", i, diff)
		}
		for n := range b {
			if DecodeEntry(&got, b[:n]) == nil {
				t.Errorf("entry %d: %d of %d bytes decode", i, n, len(b))
			}
		}
	}
	var c Records
	want := entries()[6].Records
	if err := DecodeRecords(&c, AppendRecords(nil, &want)); err != nil || c.Put[0].Value == nil ||
		c.Put[1].Value != nil {
		t.Errorf("%+v %v", c, err)
	}
	if err := DecodeRecords(&c, AppendEntry(nil, &entries()[0])); err == nil {
		t.Error("a write was accepted as records")
	}
}

// TestAddWrite checks that the copy in the log has the leader's timestamp. The mutation that is kept for a retry must
// not have this timestamp. The test also checks that the log stores neither the number of attempts nor the principal.
func TestAddWrite(t *testing.T) {
	m := Mutation{Table: 600, Key: []byte("k"), Dedupe: DedupeID{Sequence: 1}, Retried: true, Known: 250,
		Principal: fairshare.Principal{User: 1, Low: true}, Ops: []Op{{Operand: unstamped()}}}
	before := bytes.Clone(m.Ops[0].Operand)
	b := AddWrite(AddWrite(BeginWrite(nil, 3, 2, []byte("result")), &m, 500), &m, 501)
	var e Entry
	if err := DecodeEntry(&e, b); err != nil {
		t.Fatal(err)
	}
	for i, c := range e.Mutations {
		if want := int64(500 + i); c.Timestamp != want || row.Timestamp(c.Ops[0].Operand) != want || c.Retried ||
			c.Dedupe != m.Dedupe || c.Principal != (fairshare.Principal{}) {
			t.Errorf("%+v", c)
		}
	}
	if string(e.Result) != "result" || m.Timestamp != 0 || !bytes.Equal(m.Ops[0].Operand, before) {
		t.Errorf("%+v %+v", e, m)
	}
	var sent Mutation
	if err := DecodeMutation(&sent, AppendMutation(nil, &m)); err != nil || !sent.Retried || sent.Known != 250 ||
		sent.Principal != m.Principal ||
		row.Timestamp(sent.Ops[0].Operand) != row.Unstamped {
		t.Errorf("%+v %v", sent, err)
	}
}

// FuzzEntry checks that no input makes the decoder panic. Encoding a decoded entry again must yield the same bytes.
func FuzzEntry(f *testing.F) {
	for _, e := range entries() {
		f.Add(AppendEntry(nil, &e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again Entry
		if DecodeEntry(&e, b) != nil {
			return
		}
		if err := DecodeEntry(&again, AppendEntry(nil, &e)); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if diff := gocmp.Diff(e, again, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
