// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

// TestLevelWarnings checks the warnings for consistency levels. A write at a level above a quorum must cause one
// warning per connection and level. Reads and single nodes must cause no warning.
func TestLevelWarnings(t *testing.T) {
	replicas := 0
	w := newFixtureWith(t, Options{}, func() catalog.NodeInfo {
		return catalog.NodeInfo{EffectiveReplication: replicas}
	})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	w.query(t, "CREATE TABLE ks.c (k int PRIMARY KEY, n counter)")
	levels := []dberr.Consistency{
		dberr.Any,
		dberr.One,
		dberr.Two,
		dberr.Three,
		dberr.Quorum,
		dberr.All,
		dberr.LocalQuorum,
		dberr.EachQuorum,
		dberr.LocalOne,
	}
	for _, test := range []struct {
		replicas int
		want     map[dberr.Consistency]string
	}{
		{0, nil},
		{1, map[dberr.Consistency]string{dberr.Two: "TWO are acknowledged by 1 of 1",
			dberr.Three: "THREE are acknowledged by 1 of 1"}},
		{3, map[dberr.Consistency]string{dberr.Three: "THREE are acknowledged by 2 of 3",
			dberr.All: "ALL are acknowledged by 2 of 3"}},
		{4, map[dberr.Consistency]string{dberr.All: "ALL are acknowledged by 3 of 4"}},
	} {
		replicas = test.replicas
		for _, level := range levels {
			want := ""
			if text := test.want[level]; text != "" {
				want = "Writes at consistency level " + text + " replicas, like all writes"
			}
			for _, text := range []string{
				"INSERT INTO ks.t (k, v) VALUES (1, 1)", "INSERT INTO ks.t (k, v) VALUES (1, 1) IF NOT EXISTS",
				"DELETE FROM ks.t WHERE k = 1 IF EXISTS",
				"BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (1, 1) APPLY BATCH",
				"UPDATE ks.c SET n = n + 1 WHERE k = 1",
			} {
				if level == dberr.Any && strings.Contains(text, "ks.c") {
					continue // the level is rejected
				}
				s := w.NewSession(Client{Version: 4})
				call := func(text string) string {
					r := w.call(s, (*Session).Query, Request{Text: []byte(text), Consistency: level})
					if r.Err != nil {
						t.Fatalf("%s at %s: %v", text, level, r.Err)
					}
					return strings.Join(r.Warnings, "; ")
				}
				if got := call(text); got != want {
					t.Errorf("%d replicas, %s at %s: %q, want %q", test.replicas, text, level, got, want)
				}
				if got := call(text); got != "" {
					t.Errorf("%d replicas, %s at %s again: %q", test.replicas, text, level, got)
				}
				if level == dberr.Any {
					continue // the level is rejected
				}
				if got := call("SELECT v FROM ks.t WHERE k = 1"); got != "" {
					t.Errorf("%d replicas, SELECT at %s: %q", test.replicas, level, got)
				}
			}
		}
	}
}

// TestBatchMessageWarnings checks the warnings for batch messages. A failed write must cause no warning, but the next
// write must cause a warning.
func TestBatchMessageWarnings(t *testing.T) {
	w := newFixtureWith(t, Options{}, func() catalog.NodeInfo {
		return catalog.NodeInfo{EffectiveReplication: 4}
	})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	s := w.NewSession(Client{Version: 4})
	send := func(text string) *Result {
		return w.call(s, (*Session).Batch,
			Request{Consistency: dberr.All, Statements: []BatchStatement{{Text: []byte(text)}}})
	}
	if r := send("INSERT INTO ks.t (k, v) VALUES (null, 1)"); r.Err == nil || len(r.Warnings) > 0 {
		t.Errorf("a batch that fails: %v, %q", r.Err, r.Warnings)
	}
	if r := send("INSERT INTO ks.t (k, v) VALUES (1, 1)"); r.Err != nil || len(r.Warnings) != 1 {
		t.Errorf("the next batch: %v, %q", r.Err, r.Warnings)
	}
}

// fixedRouting returns the same tablet for all tokens that are not local.
type fixedRouting struct {
	fakeRouting
	tablet Tablet
	here   map[token.Token]bool
	asked  []token.Token
}

func (f *fixedRouting) Tablet(_ uint32, t token.Token) (Tablet, bool) {
	f.asked = append(f.asked, t)
	return f.tablet, !f.here[t]
}

// TestTablets checks that clients of tablets-routing-v1 receive data locations in the format of this protocol
// extension. A node without a replica must send the location in response to an EXECUTE that binds the whole partition
// key.
func TestTablets(t *testing.T) {
	routing := &fixedRouting{here: map[token.Token]bool{token.Hash(i32(7)): true}}
	routing.tablet = Tablet{First: -2, Last: 5, Replicas: []schema.UUID{{1}, {2}}}
	w := newFixture(t, Options{Routing: routing})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	w.query(t, "CREATE TABLE ks.two (a int, b int, v int, PRIMARY KEY ((a, b)))")
	asks, plain := w.NewSession(Client{Version: 4, Tablets: true}), w.NewSession(Client{Version: 4})
	payload := func(s *Session, text string, values ...[]byte) string {
		t.Helper()
		r := w.run(s, (*Session).Execute, Request{ID: w.prepared(t, s, text).ID, Values: values})
		if r.Err != nil {
			t.Fatalf("%s: %v", text, r.Err)
		}
		switch len(r.Payload) {
		case 0:
			return ""
		case 1:
			if string(r.Payload[0].Key) == "tablets-routing-v1" {
				return hex.EncodeToString(r.Payload[0].Value)
			}
		}
		t.Fatalf("%s: payload %q", text, r.Payload)
		return ""
	}
	replica := func(id string) string {
		return "0000001c" + "00000010" + id + strings.Repeat("00", 15) + "00000004" + "00000000"
	}
	want := "00000008fffffffffffffffe" + "000000080000000000000005" + "00000044" + "00000002" + replica("01") +
		replica("02")
	const (
		read   = "SELECT v FROM ks.t WHERE k = ?"
		insert = "INSERT INTO ks.t (k, v) VALUES (?, ?)"
		cas    = "UPDATE ks.t SET v = ? WHERE k = ? IF v = 1"
		twice  = "SELECT v FROM ks.two WHERE b = ? AND a = ?"
	)
	for _, test := range []struct {
		name   string
		client *Session
		text   string
		values [][]byte
		want   string
	}{
		{"read", asks, read, [][]byte{i32(1)}, want},
		{"write", asks, insert, [][]byte{i32(1), i32(1)}, want},
		{"condition", asks, cas, [][]byte{i32(1), i32(1)}, want},
		{"two columns", asks, twice, [][]byte{i32(1), i32(2)}, want},
		{"read here", asks, read, [][]byte{i32(7)}, ""},
		{"write here", asks, insert, [][]byte{i32(7), i32(1)}, ""},
		{"not asked", plain, read, [][]byte{i32(1)}, ""},
		{"a range", asks, "SELECT v FROM ks.t", nil, ""},
		{"no marker", asks, "SELECT v FROM ks.t WHERE k = 1", nil, ""},
		{"computed", asks, "SELECT * FROM system_schema.tables WHERE keyspace_name = ?", [][]byte{[]byte("ks")}, ""},
	} {
		if got := payload(test.client, test.text, test.values...); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	routing.asked = nil
	payload(asks, twice, i32(2), i32(1))
	if key := token.AppendKey(nil, i32(1), i32(2)); len(routing.asked) != 1 || routing.asked[0] != token.Hash(key) {
		t.Errorf("asked about %v, want the token of %x", routing.asked, key)
	}
	r := w.run(asks, (*Session).Query, Request{Text: []byte(read), Values: [][]byte{i32(1)}})
	if r.Err != nil || r.Payload != nil {
		t.Errorf("a QUERY: %v, payload %q", r.Err, r.Payload)
	}
}

// TestTopologyRouting checks that the ranges have the expected form, that the ranges cover the ring, and that the
// leader comes first.
func TestTopologyRouting(t *testing.T) {
	nodes := []topology.NodeID{{1}, {2}, {3}, {4}}
	snapshot, err := topology.New().AddTable(2000, 4, []topology.Place{{Nodes: nodes}})
	if err != nil {
		t.Fatal(err)
	}
	leads := topology.NodeID{3}
	m := &TopologyRouting{Coordinator: fakeRouting{func() *topology.Snapshot { return snapshot }, nil},
		Node: topology.NodeID{9}, Leaders: fixedLeader(leads)}
	last := token.Min
	for last != token.Max {
		tablet, ok := m.Tablet(2000, last+1)
		if !ok || tablet.First != last || tablet.Last <= last {
			t.Fatalf("the range behind %s is %+v, %v", last, tablet, ok)
		}
		if again, _ := m.Tablet(2000, tablet.Last); again.Last != tablet.Last || again.First != tablet.First {
			t.Errorf("the last token of %+v is in %+v", tablet, again)
		}
		if len(tablet.Replicas) != 4 || tablet.Replicas[0] != schema.UUID(leads) {
			t.Errorf("replicas %v", tablet.Replicas)
		}
		last = tablet.Last
	}
	m.Node = nodes[2]
	if tablet, ok := m.Tablet(2000, 5); ok {
		t.Errorf("a replica says %+v", tablet)
	}
	if tablet, ok := m.Tablet(2001, 5); ok {
		t.Errorf("an unknown table is at %+v", tablet)
	}
	m.Node, m.Leaders = topology.NodeID{9}, fixedLeader{}
	if tablet, ok := m.Tablet(2000, 5); !ok || len(tablet.Replicas) != 4 {
		t.Errorf("without a leader: %+v, %v", tablet, ok)
	}
}

// fixedLeader is the leader of all partitions. The value zero means that the leader is unknown.
type fixedLeader topology.NodeID

func (l fixedLeader) Leader(topology.PartitionID) (topology.NodeID, bool) {
	return topology.NodeID(l), l != fixedLeader{}
}

// fakeRouting is a fake coordinator for TopologyRouting.
type fakeRouting struct {
	topology func() *topology.Snapshot
	local    func(t token.Token, level dberr.Consistency) bool
}

func (f fakeRouting) Topology() *topology.Snapshot { return f.topology() }

func (f fakeRouting) ServesLocally(_ uint32, t token.Token, level dberr.Consistency, _ fairshare.Principal) bool {
	return f.local == nil || f.local(t, level)
}

// TestNear checks that a connection's goroutine does not execute reads that require another node.
func TestNear(t *testing.T) {
	w := newFixture(t, Options{Routing: &TopologyRouting{Coordinator: fakeRouting{nil,
		func(tok token.Token, level dberr.Consistency) bool {
			return tok == token.Hash(i32(1)) || level == dberr.LocalOne
		}}, Leaders: fixedLeader{}}})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	p := w.prepared(t, w.client, "SELECT v FROM ks.t WHERE k = ?")
	local := w.prepared(t, w.client, "SELECT * FROM system.local WHERE key = ?")
	for _, test := range []struct {
		name  string
		id    [16]byte
		key   []byte
		level dberr.Consistency
		want  Status
	}{
		{"near", p.ID, i32(1), dberr.Quorum, Done},
		{"far", p.ID, i32(2), dberr.Quorum, Offload},
		{"far, any replica", p.ID, i32(2), dberr.LocalOne, Done},
		{"computed", local.ID, []byte("local"), dberr.One, Done},
	} {
		c := &Call{Request: Request{ID: test.id, Values: [][]byte{test.key}, Consistency: test.level, Version: 4}}
		if got := w.client.Execute(context.Background(), c); got != test.want || c.Result.Err != nil {
			t.Errorf("%s: status %d, %v", test.name, got, c.Result.Err)
		}
	}
}

// found collects the rows of a read.
type found struct {
	log  *write.BatchLog
	key  []byte
	rows []string
}

func (f *found) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	f.key = bytes.Clone(key)
	return command.More, nil
}

func (f *found) Row(_ []byte, r *row.Row) (command.Step, error) {
	id, stamp, data, ok := f.log.Decode(f.key, r)
	if !ok || stamp != 77 {
		f.rows = append(f.rows, "not a batch")
	}
	f.rows = append(f.rows, string(id[:1])+" "+string(data))
	return command.More, nil
}

// TestBatchLog checks that decoding returns the original batch record. A removed record must remain removed, regardless
// of the order of the insertion and the removal. The test also checks the permissions of clients.
func TestBatchLog(t *testing.T) {
	w := newFixture(t, Options{})
	log := write.NewBatchLog(w.catalog)
	send := func(ms ...command.Mutation) {
		t.Helper()
		for i := range ms {
			done := make(chan error, 1)
			w.coordinator.Write(context.Background(), ms[i:i+1], writeOptions, completion(done))
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
	a, b, c := [16]byte{'a'}, [16]byte{'b'}, [16]byte{'c'}
	send(log.Record(a, 77, []byte("one")), log.Record(b, 77, []byte("two")), log.Record(c, 77, []byte("three")))
	list := func() []string {
		f := &found{log: log}
		if err := w.coordinator.Read(context.Background(), &command.Read{Table: log.Table(), Level: dberr.Quorum},
			f); err != nil {
			t.Fatal(err)
		}
		return f.rows
	}
	if diff := cmp.Diff(map[string]bool{"a one": true, "b two": true, "c three": true}, setOf(list())); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	send(log.Remove(a, 77), log.Record(a, 77, []byte("one")), log.Remove(b, 77))
	if diff := cmp.Diff([]string{"c three"}, list()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if got := cells(w.query(t, "SELECT data FROM system.batches")); !cmp.Equal(got, []string{"three"}) {
		t.Errorf("a client sees %q", got)
	}
	for _, text := range []string{
		"INSERT INTO system.batches (id, data) VALUES (uuid(), 0x00)",
		"DELETE FROM system.batches WHERE id = 63000000-0000-0000-0000-000000000000",
		"UPDATE system.batches SET data = 0x00 WHERE id = 63000000-0000-0000-0000-000000000000",
		"TRUNCATE system.batches",
		"DROP TABLE system.batches", "ALTER TABLE system.batches ADD x int", "CREATE INDEX ON system.batches (data)",
	} {
		if err := w.try(text); err == nil || !strings.Contains(err.Error(), "system keyspace is not user-modifiable.") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if id := log.Table(); id != catalog.BatchesID || log.Record(a, 1, nil).Table != id ||
		log.Remove(a, 1).Table != id {
		t.Errorf("the table is %d", id)
	}
}

func setOf(list []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range list {
		out[s] = true
	}
	return out
}
