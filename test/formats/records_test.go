// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// record is an encoded record and its kind.
type record struct {
	kind  string
	bytes []byte
}

// records returns one record with all its parts for each kind of record that this build writes.
func records() []record {
	m := command.Mutation{
		Table: 1024, Token: -5, Key: []byte("key"), SchemaVersion: 3, Epoch: 2, Timestamp: 77, Retried: true, Known: 20,
		Dedupe: command.DedupeID{Coordinator: [16]byte{1}, Sequence: 9},
		Ops: []command.Op{
			{Clustering: []byte("c"), Operand: []byte("operand")},
			{Kind: command.OpHeader},
			{Kind: command.OpIndex, Index: 7, Value: []byte("v")},
		},
	}
	wide := command.Mutation{Table: 1024 | keys.WideRing, Token: 6, Low: 1 << 60, Key: []byte("wide")}
	text := &cqltype.Type{Kind: cqltype.Text}
	found := &row.Row{
		Live:     true,
		Liveness: row.Liveness{Timestamp: 5, Expiry: row.NoExpiry},
		Cells:    []row.Cell{{Column: 3, Value: []byte("v"), Timestamp: 8, Expiry: row.NoExpiry}},
	}
	logged, sent := m, m
	logged.Retried, logged.Known = false, 0
	sent.Retried, sent.Sent = false, true
	out := []record{
		{"mutation", command.AppendMutation(nil, &m)},
		{"mutation", command.AppendMutation(nil, &sent)},
		{"mutation", command.AppendMutation(nil, &wide)},
		{"conditional", command.AppendConditional(nil, &command.Conditional{
			Mutation: m, Serial: dberr.Serial, Now: 9, Rows: []command.RowRef{{Clustering: []byte("c")},
				{Static: true}},
			Conditions: []command.Condition{{Row: 1, Operator: command.In, Column: 2, Type: text,
				Values: [][]byte{nil, []byte("a")}}},
			Updates: []command.Update{
				{
					Kind:   command.ListSetAt,
					Column: 4,
					Type:   &cqltype.Type{Kind: cqltype.List, Elems: []*cqltype.Type{text}},
					Args:   [][]byte{{0, 0, 0, 1}, nil},
				},
			},
		})},
		{"conditional", command.AppendConditional(nil, &command.Conditional{
			Mutation: m, Serial: dberr.Serial, Now: 9, MaxCharge: 300, Program: []byte("program"), Dry: true,
		})},
		{"decision", command.AppendCASResult(nil, &command.CASResult{Applied: true, Timestamp: 7, Charge: 300,
			Result: []byte("result")})},
		{"read", command.AppendRead(nil, &command.Read{
			Table: 1024, Range: token.Range{Begin: 5, Limit: 1 << 63}, Statics: true,
			Resume: command.Resume{AfterKey: []byte("k"), AfterToken: 9, AfterPartition: true},
			Slices: []command.Slice{
				{Start: []byte("a")},
			}, Index: &command.IndexLookup{Index: 7, Value: []byte("v")}, Limit: 100, Now: 4, Level: dberr.Quorum,
			Epoch: 2,
		})},
		{
			"decision",
			command.AppendCASResult(nil, &command.CASResult{Timestamp: 5, Found: []*row.Row{nil, found},
				First: &command.FoundRow{Row: found}}),
		},
	}
	for _, e := range []command.Entry{
		{Kind: command.EntryWrite, Epoch: 2, Mutations: []command.Mutation{logged, wide}, Result: []byte("result")},
		{Kind: command.EntrySweep, Epoch: 2, Sweep: command.Sweep{Table: 1024, Keys: [][]byte{[]byte("k")},
			Horizon: 1 << 31, Dropped: []cqltype.Dropped{{Column: 3, Upto: cqltype.AllDropped}}}},
		{Kind: command.EntryTruncate, Epoch: 2, Span: keys.Span{Table: 1024, Begin: []byte{1}}, Indexes: []uint32{7}},
		{Kind: command.EntryRequire, Epoch: 2, SchemaVersion: 12},
		{Kind: command.EntryRecords, Epoch: 1,
			Records: command.Records{Expect: 3, Put: []command.Record{{Key: []byte("a"), Value: []byte("b")},
				{Key: []byte("gone")}}}},
		{Kind: command.EntryFeature, Epoch: 2, Level: 2},
		{Kind: command.EntrySplit, Epoch: 2, Split: command.Split{Child: 9, At: []byte{1, 2}, Leader: [16]byte{1},
			Voters: []keys.Member{{Replica: 7, Node: [16]byte{1}}}, Learners: []keys.Member{{Replica: 8,
				Node: [16]byte{2}}}}},
		{Kind: command.EntryFreeze, Epoch: 2}, {Kind: command.EntryUnfreeze, Epoch: 2},
		{Kind: command.EntryMerge, Epoch: 2, Merge: command.Merge{Right: 9, Frozen: 40, RightEpoch: 3}},
	} {
		out = append(out, record{"entry", command.AppendEntry(nil, &e)})
	}
	p := keys.NewMeta(5, keys.Span{Table: 1024, Begin: []byte{1}, End: []byte{2}})
	p.Voters, p.Learners, p.AutoLeave = []keys.Member{{Replica: 1, Node: [16]byte{1}}},
		[]keys.Member{{Replica: 2, Node: [16]byte{2}}}, true
	p.Children = []keys.Child{{Partition: 6, Span: keys.Span{Table: 1024, Begin: []byte{2}}, Epoch: 2, Index: 40}}
	p.Parents, p.Region, p.Swept, p.FeedLow = []keys.Parent{{Partition: 1, Index: 77, Epoch: 1}}, "eu", 1<<31, 12
	p.Frozen, p.Absorbed = 41, []keys.Absorbed{{Partition: 9, Index: 40, Epoch: 3, At: 39}}
	p.Begun = keys.Begun{Index: 41, Commands: 2}
	r := keys.Replica{Partition: 5, Replica: 2, Created: 1 << 31}
	n := meta.Node{
		ID: topology.NodeID{
			7,
		}, Internal: "10.0.0.1:7000", CQL: "10.0.0.1:9042", HTTP: "10.0.0.1:8080", Region: "eu", Zone: "a",
		Tokens: []token.Token{-1, 5},
		State:  meta.Leaving, Levels: feature.Range{Oldest: 1, Newest: 2}, Joined: time.UnixMilli(1e12),
		CreationID: 1 << 40,
	}
	event := meta.Event{Kind: meta.Move, Table: 1024, Partition: 5, From: topology.NodeID{7}, To: topology.NodeID{8},
		Reason: topology.Reason{Cause: topology.ToHeal, Began: 1e12}, Ended: 1e12 + 9, Bytes: 300,
		Pause: time.Millisecond}
	role := access.Role{
		Login: true, Superuser: true, Configured: true, Hash: "$2a$10$x", MemberOf: []string{"a", "b"},
		Datacenters: []string{"eu"},
		Groups:      []string{"office"}, Grants: map[access.Resource]access.Permissions{
			access.OfTable("ks", "t"): access.AllPermissions,
			{Kind: access.Function, Keyspace: "ks", Name: "f", Args: "int, text"}: access.Of(access.Execute),
		},
	}
	group := access.Group{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("2001:db8::/32")}}
	s, err := topology.New().WithLevel(1).AddTable(1024, 2,
		[]topology.Place{{Region: "eu", Nodes: []topology.NodeID{{1}, {2}}}})
	if err == nil {
		s, err = split(s, 2, topology.Position{Ring: 1<<63 + 5, Key: []byte("k")})
	}
	if err == nil { // the next split is still in progress
		s, err = s.BeginSplit(1, topology.Position{Ring: 7}, topology.ByOperator, time.UnixMilli(1e12))
	}
	if err != nil {
		panic(err)
	}
	return append(
		out,
		record{"meta", p.Append(nil)},
		record{"progress", keys.AppendProgress(
			keys.AppendProgress(nil, &keys.Progress{Partition: 7, Applied: 300, Term: 6, MaxTimestamp: -5,
				SchemaVersion: 9}),
			&keys.Progress{Partition: keys.MetaPartition})},
		record{"replica", r.Append(nil)},
		record{"node", n.Append(nil)},
		record{"event", event.Append(nil)},
		record{"map", s.Append(nil)},
		record{"role", role.Append(nil)},
		record{"cidrs", group.Append(nil)},
		record{"mutation", command.AppendMutation(nil, &command.Mutation{Table: 1024, Key: []byte("key"),
			Ops: []command.Op{{Kind: command.OpChange, Clustering: []byte("c"), Value: make([]byte, 8),
				Index: command.ChangeLatest | command.ChangeKept, Operand: []byte("operand")}}})},
		record{"read", command.AppendRead(nil, &command.Read{Table: 1024, Level: dberr.Quorum,
			Changes: &command.ChangesRead{After: 5, Upto: 900, Kept: true, Horizon: true}})},
		record{"build", (*meta.Build)(nil).Append(nil)},
		record{"build", (&meta.Build{Policy: "3", Token: -5, Key: []byte("k"), Clustering: []byte("c"),
			WholePartition: true,
			Rows:           300}).Append(nil)},
		record{"conditional", command.AppendConditional(nil, &command.Conditional{Mutation: m, Now: 9,
			Log: &command.ChangeLog{Keep: 600}})},
		record{"mutation", command.AppendMutation(nil, &command.Mutation{Table: 1024, Key: []byte("key"),
			Ops: []command.Op{{Kind: command.OpChange, Clustering: []byte("c"), Value: make([]byte, 8),
				Index: command.ChangeLatest | command.ChangePointed}, {Kind: command.OpChange,
				Index:   command.ChangeKept | command.ChangePointed | command.ChangeRanges,
				Operand: []byte("operand")}}})},
		record{"role", (&access.Role{Login: true, Low: true, ID: access.RoleID{1, 15: 2},
			Credentials: 300}).Append(nil)},
		record{"entry", command.AppendEntry(nil, &command.Entry{Kind: command.EntryTruncate, Epoch: 2,
			ID: command.DedupeID{Coordinator: [16]byte{1}, Sequence: 9}})},
		record{"conditional", command.AppendConditional(nil, &command.Conditional{Mutation: m, Now: 9, Issued: 300})},
		record{"entry", command.AppendEntry(nil, &command.Entry{Kind: command.EntrySweep, Epoch: 2,
			Sweep: command.Sweep{Table: 1024, Keys: [][]byte{[]byte("k")}, Horizon: 1 << 31,
				Dropped: []cqltype.Dropped{{Column: 3, Upto: 1_700_000_000_000_000},
					{Column: 5, Upto: cqltype.AllDropped}},
				Expired: row.Expired{Own: 1 << 31, Default: 1 << 30}}})},
		record{"region", (&meta.Region{Name: "eu", Number: 300}).Append(nil)},
		record{"region", (&meta.Region{Name: "eu", Number: 1, State: meta.RegionRemoved}).Append(nil)},
		record{"resource", (&dbresource.Resource{Parent: dbresource.Parent{Kind: dbresource.User, Database: 1030},
			ID: "u", Number: 1, At: 1 << 31, Revision: 300, Nonce: 1 << 40,
			Definition: []byte(`{"id":"u"}`)}).Append(nil)},
		record{"resource", (&dbresource.Resource{Parent: dbresource.Parent{Kind: dbresource.Permission, Database: 1030,
			Owner: 1}, ID: "p", Number: 2, Revision: 301, Definition: []byte(`{"id":"p"}`), Grant: dbresource.Grant{
			Container: "AAAEBoAABAc=", Kind: "docs", Target: "i", ByRID: true, Key: "\"a\"", KeyValues: 1,
			All: true}}).Append(nil)},
	)
}

// again decodes a record and encodes it in the format of this build.
func (r record) again() ([]byte, error) {
	switch r.kind {
	case "mutation":
		var v command.Mutation
		err := command.DecodeMutation(&v, r.bytes)
		return command.AppendMutation(nil, &v), err
	case "conditional":
		var v command.Conditional
		err := command.DecodeConditional(&v, r.bytes)
		return command.AppendConditional(nil, &v), err
	case "read":
		var v command.Read
		err := command.DecodeRead(&v, r.bytes)
		return command.AppendRead(nil, &v), err
	case "decision":
		var v command.CASResult
		err := command.DecodeCASResult(&v, r.bytes)
		return command.AppendCASResult(nil, &v), err
	case "entry":
		var v command.Entry
		err := command.DecodeEntry(&v, r.bytes)
		return command.AppendEntry(nil, &v), err
	case "build":
		return meta.DecodeBuild(r.bytes).Append(nil), nil
	case "meta":
		v, err := keys.DecodeMeta(r.bytes)
		return v.Append(nil), err
	case "progress":
		var again []byte
		err := keys.DecodeProgress(r.bytes, func(p keys.Progress) { again = keys.AppendProgress(again, &p) })
		return again, err
	case "replica":
		v, err := keys.DecodeReplica(r.bytes)
		return v.Append(nil), err
	case "node":
		v, err := meta.DecodeNode(topology.NodeID{7}, r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case "region":
		v, err := meta.DecodeRegion("eu", r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case "resource":
		v, err := dbresource.Decode(1, r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case "event":
		v, err := meta.DecodeEvent(1, r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case "map":
		v, err := topology.Decode(r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case "role":
		v, err := access.DecodeRole("", r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	case "cidrs":
		v, err := access.DecodeGroup("", r.bytes)
		if err != nil {
			return nil, err
		}
		return v.Append(nil), nil
	}
	return nil, fmt.Errorf("no record is of kind %q", r.kind)
}

func recordsText() string {
	var out strings.Builder
	for _, r := range records() {
		fmt.Fprintf(&out, "%s %x\n", r.kind, r.bytes)
	}
	return out.String()
}

// TestRecords checks that this build reads the records of all formats and writes records of the current format
// unchanged.
func TestRecords(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "records.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		isPresent := filepath.Dir(file) == present
		if isPresent && string(text) != recordsText() {
			t.Errorf("%s: the format of records has changed:\n%s", file, recordsText())
		}
		for line := range strings.Lines(string(text)) {
			kind, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
			b, err := hex.DecodeString(digits)
			if err != nil {
				t.Fatal(err)
			}
			again, err := record{kind, b}.again()
			if err != nil || isPresent && !bytes.Equal(again, b) {
				t.Errorf("%s: %s: %v\n got %x\nwant %x", file, kind, err, again, b)
			}
		}
	}
}

// split splits a partition in two. It makes the same change as a split entry in the log of the partition.
func split(s *topology.Snapshot, id topology.PartitionID, at topology.Position) (*topology.Snapshot, error) {
	s, err := s.BeginSplit(id, at, topology.ByOperator, time.UnixMilli(1e12))
	if err != nil {
		return nil, err
	}
	return s.EndSplit(id, time.Time{})
}
