// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

var places = []topology.Place{{Region: "here", Nodes: []topology.NodeID{{1}, {2}, {3}}}}

// scanOf returns a scan of records in random order.
func scanOf(records map[string][]byte, version uint64) Scan {
	return func(fn func(key, value []byte) error) (uint64, error) {
		for key, value := range records {
			buffer := bytes.Clone(value) // valid only during the call
			if err := fn([]byte(key), buffer); err != nil {
				return 0, err
			}
			for i := range buffer {
				buffer[i] = 0xee
			}
		}
		return version, nil
	}
}

// ddl returns the schema after a change.
func ddl(t interface{ Fatal(...any) }, s *schema.Schema, c schema.Change) *schema.Schema {
	next, _, err := schema.Apply(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func stamp(n int) schema.Stamp {
	return schema.Stamp{Version: schema.UUID{byte(n), byte(n >> 8)}, At: int64(n)}
}

func createKeyspace(n int, name string) schema.Change {
	return &schema.CreateKeyspace{Stamp: stamp(n), Name: name, Properties: []schema.Property{
		{
			Name:  "replication",
			IsMap: true,
			Map:   []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}},
		},
	}}
}

func createTable(n int, ks, name string) schema.Change {
	return &schema.CreateTable{Stamp: stamp(n), Keyspace: ks, Name: name, ID: schema.UUID{15: byte(n), 14: byte(n >> 8),
		0: 1},
		Columns:      []schema.ColumnSpec{{Name: "k", Type: &schema.TypeSpec{Kind: cqltype.Int}}},
		PartitionKey: []string{"k"}}
}

// same checks that the stored parts of two states are equal.
func same(t *rapid.T, a, b *State) {
	encode := func(s *State) (out []string) {
		put, _, err := schema.Objects(nil, s.Schema)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range slices.Sorted(maps.Keys(put)) {
			out = append(out, k, string(put[k]))
		}
		out = append(out, string(s.Topology.Append(nil)), fmt.Sprint(s.Version, s.Topology.Level()))
		for _, n := range s.Nodes {
			out = append(out, string(n.ID[:])+string(n.Append(nil)))
		}
		return out
	}
	if diff := cmp.Diff(encode(a), encode(b)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]any{a.Building, a.Builds, a.Settings, a.Roles.Records()},
		[]any{b.Building, b.Builds, b.Settings, b.Roles.Records()}, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

// change returns a state after a random change.
func change(t *rapid.T, s *State, n int) *State {
	ks := fmt.Sprint("ks", rapid.IntRange(0, 2).Draw(t, "keyspace"))
	name := fmt.Sprint("t", rapid.IntRange(0, 3).Draw(t, "table"))
	id := topology.NodeID{byte(rapid.IntRange(1, 5).Draw(t, "node"))}
	next := *s
	have := s.Schema.Keyspaces[ks]
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1:
		if have == nil {
			next.Schema = ddl(t, s.Schema, createKeyspace(n, ks))
		} else if have.Tables[name] == nil {
			next.Schema = ddl(t, s.Schema, createTable(n, ks, name))
			m, err := s.Topology.AddTable(next.Schema.Table(ks, name).ID, rapid.IntRange(1, 3).Draw(t, "parts"), places)
			if err != nil {
				t.Fatal(err)
			}
			next.Topology = m
		} else {
			next.Schema = ddl(t, s.Schema, &schema.DropTable{Stamp: stamp(n), Keyspace: ks, Name: name})
			next.Topology = s.Topology.DropTable(have.Tables[name].ID)
		}
	case 2:
		if have != nil && rapid.Bool().Draw(t, "drop keyspace") {
			next.Schema = ddl(t, s.Schema, &schema.DropKeyspace{Stamp: stamp(n), Name: ks})
			for _, table := range have.Tables {
				next.Topology = next.Topology.DropTable(table.ID)
			}
		}
	case 3:
		for _, table := range s.Topology.Tables() {
			p := s.Topology.Partitions(table)[0]
			m, _, err := s.Topology.AddMember(p.ID, "here", topology.NodeID{100, byte(n)}, topology.Learner)
			if err != nil {
				t.Fatal(err)
			}
			next.Topology = m
		}
	case 4:
		if m, err := s.Topology.AddMeta(places); err == nil {
			next.Topology = m
		}
	case 5:
		return s.WithNode(&Node{ID: id, Zone: fmt.Sprint(n), Tokens: []token.Token{token.Token(n)}})
	case 6:
		next.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n *Node) bool { return n.ID == id })
	case 7:
		next.Topology = next.Topology.WithLevel(next.Topology.Level() + 1)
		if id := uint32(n % 3); s.Building[id] && rapid.Bool().Draw(t, "reached") {
			return next.WithBuild(id, &Build{Policy: name, Token: token.Token(n), Key: []byte{1}, Rows: 7})
		}
		return next.WithBuilding(uint32(n%3), rapid.Bool().Draw(t, "building"))
	case 8:
		return s.WithSetting(name, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text"))
	case 9:
		if s.Roles.Role(name) != nil && rapid.Bool().Draw(t, "drop role") {
			return s.WithRoles(s.Roles.WithoutRole(name))
		}
		roles := s.Roles.WithRole(&access.Role{Name: name, Hash: fmt.Sprint(n), Login: n%2 == 0})
		return s.WithRoles(roles.WithCreator(name, access.OfTable(ks, name)))
	}
	return &next
}

// TestDifference checks that the records that Diff returns after any change produce the next state, both for a node
// that reads all records again and for a node that applies the change. Unchanged parts are shared with the previous
// state (MT2).
func TestDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := map[string][]byte{}
		here, err := Load(scanOf(records, 1))
		if err != nil {
			t.Fatal(err)
		}
		follower := here
		for n := range rapid.IntRange(1, 25).Draw(t, "changes") {
			next := change(t, here, n+1)
			difference, err := here.Diff(next)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range difference {
				if old, ok := records[string(r.Key)]; ok && r.Value != nil && bytes.Equal(old, r.Value) || !ok &&
					r.Value == nil {
					t.Fatalf("record %q is in the difference and is the same", r.Key)
				}
				if i > 0 && bytes.Compare(difference[i-1].Key, r.Key) >= 0 {
					t.Fatalf("record %q is not behind the one before", r.Key)
				}
			}
			put(records, difference)
			before := here
			version := before.Version + 1
			if here, err = before.reload(scanOf(records, version)); err != nil {
				t.Fatal(err)
			}
			afresh, err := Load(scanOf(records, version))
			if err != nil {
				t.Fatal(err)
			}
			wanted := *next
			wanted.Version = version
			same(t, here, &wanted)
			same(t, here, afresh)
			if told, err := before.applyChange(version, difference); err != nil {
				t.Fatal(err)
			} else {
				same(t, told, here)
				shared(t, before, told)
				if !maps.EqualFunc(told.records, here.records, bytes.Equal) {
					t.Fatal("applying the change results in different records")
				}
			}
			shared(t, before, here)
			if rapid.Bool().Draw(t, "follows") {
				if follower, err = follower.reload(scanOf(records, version)); err != nil {
					t.Fatal(err)
				}
				same(t, follower, here)
			}
		}
	})
}

// shared checks MT2 for the tables of the schema and of the topology.
func shared(t *rapid.T, before, after *State) {
	for name, ks := range after.Schema.Keyspaces {
		old := before.Schema.Keyspaces[name]
		if old == nil || !bytes.Equal(before.records["schema/keyspace/"+name], after.records["schema/keyspace/"+name]) {
			continue
		}
		for table, now := range ks.Tables {
			key := "schema/table/" + name + "/" + table
			if bytes.Equal(before.records[key], after.records[key]) && old.Tables[table] != now {
				t.Fatalf("%s was decoded again", key)
			}
		}
	}
	for p := range after.Topology.All() {
		old := before.Topology.Partition(p.ID)
		if old != nil && old != p && bytes.Equal(topology.AppendPartition(nil, old), topology.AppendPartition(nil, p)) {
			t.Fatalf("partition %d was decoded again", p.ID)
		}
	}
}

// TestSmallDifference checks that a change of one table among many writes only a few small records.
func TestSmallDifference(t *testing.T) {
	s := Empty()
	s.Schema = ddl(t, s.Schema, createKeyspace(1, "ks"))
	for i := range 200 {
		s.Schema = ddl(t, s.Schema, createTable(i, "ks", fmt.Sprint("t", i)))
		m, err := s.Topology.AddTable(s.Schema.Table("ks", fmt.Sprint("t", i)).ID, 4, places)
		if err != nil {
			t.Fatal(err)
		}
		s.Topology = m
	}
	all, err := Empty().Diff(s)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string][]byte{}
	put(records, all)
	if s, err = Load(scanOf(records, 1)); err != nil {
		t.Fatal(err)
	}
	next := *s
	next.Schema = ddl(t, s.Schema, createTable(999, "ks", "another"))
	if next.Topology, err = s.Topology.AddTable(next.Schema.Table("ks", "another").ID, 4, places); err != nil {
		t.Fatal(err)
	}
	difference, err := s.Diff(&next)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, r := range difference {
		size += len(r.Key) + len(r.Value)
	}
	if len(difference) != 7 || size > 4096 {
		t.Fatalf("%d records of %d bytes", len(difference), size)
	}
}

// TestAlone checks that a standalone node applies a change in one batch and reads all changes after a restart. The node
// must reject a change that is based on another version.
func TestAlone(t *testing.T) {
	store, err := storage.Open(vfs.NewMem(), "data", storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	scan, change := Standalone(store)
	k, err := New(scan, change, Options{Self: topology.NodeID{1}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for want := range uint64(3) {
		if s, err := k.Update(t.Context(), increment); err != nil || s.Version != want+1 ||
			s.Settings["n"] != fmt.Sprint(want+1) {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	if _, err := change(t.Context(), command.Records{Expect: 1}); err == nil {
		t.Error("a change of an older version was made")
	}
	if s, err := k.Update(t.Context(), func(s *State) (*State, error) {
		return s.WithSetting("n", ""), nil
	}); err != nil ||
		len(s.Settings) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if b, err := store.Get(keys.MetaID, []byte("setting/n")); err != nil || b != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestNodeRecord checks that a node's record survives encoding and decoding. Fields of newer builds must be kept, and a
// corrupted record must be rejected.
func TestNodeRecord(t *testing.T) {
	n := &Node{
		ID: topology.NodeID{7}, Internal: "10.0.0.1:7000", CQL: "10.0.0.1:9042", HTTP: "10.0.0.1:8080", Region: "eu",
		Zone:   "a",
		Tokens: []token.Token{token.Min, -1, token.Max}, State: Leaving,
		Levels: feature.Range{Oldest: 1, Newest: 3}, Joined: time.UnixMilli(1e12).UTC(),
	}
	record := n.Append(nil)
	got, err := DecodeNode(n.ID, record)
	if diff := cmp.Diff(n, got, cmp.AllowUnexported(Node{})); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	later := codec.Writer(bytes.Clone(record[:len(record)-1]))
	later.Field(9, false, []byte("a later field"))
	later.EndFields()
	got, err = DecodeNode(n.ID, later)
	if err != nil {
		t.Fatal(err)
	}
	if got.State = Left; !bytes.HasSuffix(got.Append(nil), []byte("a later field\x00")) {
		t.Error("later fields are lost")
	}
	for i := range record {
		if _, err := DecodeNode(n.ID, record[:i]); err == nil {
			t.Errorf("the first %d bytes of %d are a node", i, len(record))
		}
	}
	if _, err := DecodeNode(n.ID, []byte{nodeFormat + 1}); !errors.Is(err, feature.ErrNewer) {
		t.Error("a newer format was read")
	}
}

// FuzzDecodeNode checks that a decoded record survives encoding and decoding.
func FuzzDecodeNode(f *testing.F) {
	f.Add((&Node{CQL: "a:1", Tokens: []token.Token{5}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := DecodeNode(topology.NodeID{}, b)
		if err != nil {
			return
		}
		again, err := DecodeNode(topology.NodeID{}, n.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), n.Append(nil)) {
			t.Fatalf("second round: %v", err)
		}
	})
}

// BenchmarkReload measures the CPU time of applying a change of one table among a thousand.
func BenchmarkReload(b *testing.B) {
	s := Empty()
	s.Schema = ddl(b, s.Schema, createKeyspace(1, "ks"))
	for i := range 1000 {
		s.Schema = ddl(b, s.Schema, createTable(i, "ks", fmt.Sprint("t", i)))
		m, err := s.Topology.AddTable(s.Schema.Table("ks", fmt.Sprint("t", i)).ID, 4, places)
		if err != nil {
			b.Fatal(err)
		}
		s.Topology = m
	}
	all, err := Empty().Diff(s)
	if err != nil {
		b.Fatal(err)
	}
	records := map[string][]byte{}
	put(records, all)
	for _, first := range []bool{true, false} {
		b.Run(fmt.Sprint("first=", first), func(b *testing.B) {
			b.ReportAllocs()
			at, err := Load(scanOf(records, 1))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if first {
					at = Empty()
				} else {
					m, _, err := at.Topology.AddMember(1, "here", topology.NodeID{9, byte(b.N)}, topology.Learner)
					if err != nil {
						b.Fatal(err)
					}
					records[string(partitionKey(1))] = topology.AppendPartition(nil, m.Partition(1))
					records[topologyKey] = m.AppendHeader(nil)
				}
				if _, err = at.reload(scanOf(records, 2)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
