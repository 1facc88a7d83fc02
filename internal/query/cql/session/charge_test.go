// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// chargeOf returns the charge in a response, or -1 if the response contains no charge.
func chargeOf(r *Result) float64 {
	for _, p := range r.Payload {
		if string(p.Key) == "RequestCharge" && len(p.Value) == 8 {
			return math.Float64frombits(binary.BigEndian.Uint64(p.Value))
		}
	}
	return -1
}

// charged executes a request and returns the charge and the result.
func (w *fixture) charged(t *testing.T, r Request) (float64, *Result) {
	t.Helper()
	r.Payload = []Payload{{Key: []byte("RequestCharge"), Value: []byte{1}}}
	out := w.run(w.client, (*Session).Query, r)
	if out.Err != nil {
		t.Fatalf("%s: %v", r.Text, out.Err)
	}
	return chargeOf(out), out
}

// TestRequestCharge checks the charges of requests against docs/request-units.md.
func TestRequestCharge(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v text, s text static, n int, PRIMARY KEY (k, c))")
	w.query(t, "CREATE TABLE ks.counters (k int PRIMARY KEY, n counter)")
	w.query(t, "CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>, n int)")
	w.query(t, "CREATE TABLE ks.indexed (k int PRIMARY KEY, a int, b int)")
	w.query(t, "CREATE INDEX ON ks.indexed (a)")
	w.query(t, "INSERT INTO ks.lists (k, l) VALUES (1, [1, 2])")
	kb, large := strings.Repeat("v", 900), strings.Repeat("v", 100<<10-22)
	for i, c := range []struct {
		text  string
		level dberr.Consistency
		want  float64
	}{
		{text: "INSERT INTO ks.t (k, c, v) VALUES (1, 1, '" + kb + "')", want: 5},
		{text: "INSERT INTO ks.t (k, c, v) VALUES (1, 1, '" + kb + "')", want: 5},
		{text: "INSERT INTO ks.t (k, c, v, s) VALUES (1, 2, 'v', 's')", want: 10},
		{text: "INSERT INTO ks.t (k, c, v) VALUES (2, 1, '" + large + "')", want: 50},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c = 1", want: 1},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c = 1", level: dberr.Quorum, want: 1},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c = 1", level: dberr.Serial, want: 2},
		{text: "SELECT v FROM ks.t WHERE k = 2 AND c = 1", want: 10},
		{text: "SELECT v FROM ks.t WHERE k = 9 AND c = 1", want: 1},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND c IN (1, 2)", want: 1.04},
		{text: "SELECT v FROM ks.t WHERE k IN (1, 9) AND c = 1", want: 2},
		{text: "SELECT v FROM ks.t WHERE k = 1 AND n = 7 ALLOW FILTERING", want: 1.04},
		{text: "SELECT DISTINCT k FROM ks.counters", want: 5},
		{text: "UPDATE ks.t SET n = 7 WHERE k = 1 AND c = 1", want: 5},
		{text: "UPDATE ks.t SET n = 8 WHERE k = 1 AND c = 1 IF n = 7", want: 7},
		{text: "UPDATE ks.t SET n = 8 WHERE k = 1 AND c = 1 IF n = 7", want: 2},
		{text: "INSERT INTO ks.t (k, c) VALUES (3, 1) IF NOT EXISTS", want: 7},
		{text: "DELETE FROM ks.t WHERE k = 3 AND c = 1", want: 5},
		{text: "DELETE FROM ks.t WHERE k = 3", want: 5},
		{text: "UPDATE ks.counters SET n = n + 1 WHERE k = 1", want: 6},
		{text: "UPDATE ks.lists SET l[0] = 7, n = 3 WHERE k = 1", want: 6},
		{text: "INSERT INTO ks.indexed (k, a, b) VALUES (1, 2, 3)", want: 5.5},
		{text: "BEGIN UNLOGGED BATCH INSERT INTO ks.indexed (k, a) VALUES (2, 2); " +
			"INSERT INTO ks.t (k, c) VALUES (5, 5); APPLY BATCH", want: 10.5},
		{text: "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (5, 6); INSERT INTO ks.t (k, c) VALUES (5, 7); APPLY BATCH",
			want: 10},
		{text: "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (5, 6); INSERT INTO ks.t (k, c) VALUES (6, 6); " +
			"INSERT INTO ks.t (k, c) VALUES (7, 6); INSERT INTO ks.t (k, c) VALUES (8, 6); APPLY BATCH", want: 20},
	} {
		got, _ := w.charged(t, Request{Text: []byte(c.text), Consistency: c.level})
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d: %.80s at %s: %v RU, want %v", i, c.text, c.level, got, c.want)
		}
	}
	// The trace of a scan over two physical partitions contains an event for each partition.
	_, r := w.charged(t, Request{Text: []byte("SELECT k FROM ks.counters"), Tracing: true})
	events := w.query(t, fmt.Sprintf("SELECT activity FROM system_traces.events WHERE session_id = %x-%x-%x-%x-%x",
		r.TraceID[:4], r.TraceID[4:6], r.TraceID[6:8], r.TraceID[8:10], r.TraceID[10:]))
	if got := strings.Join(cells(events), "\n"); strings.Count(got, "RU at physical partition") != 2 ||
		!strings.Contains(got, "Read from 2 physical partitions") || !strings.Contains(got, "Request charge: 5.0") {
		t.Error(got)
	}
}

// TestChargePayload checks which responses contain the charge. If the table or keyspace has provisioned throughput,
// every response must contain the charge, even for statements that were prepared earlier. Otherwise, only clients that
// request the charge must receive the charge.
func TestChargePayload(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	id := w.prepared(t, w.client, "SELECT v FROM ks.t WHERE k = ?").ID
	insert := w.prepared(t, w.client, "INSERT INTO ks.t (k, v) VALUES (?, ?)").ID
	for _, c := range []struct {
		ddl         string
		read, wrote float64
	}{
		{"", -1, -1},
		{"ALTER TABLE ks.t WITH cosmosdb_provisioned_throughput = 400", 1, 5},
		{"ALTER TABLE ks.t WITH throughput = 0", -1, -1},
		{"ALTER KEYSPACE ks WITH cosmosdb_autoscale_max_throughput = 1000", 1, 5},
	} {
		if c.ddl != "" {
			w.query(t, c.ddl)
			id = w.prepared(t, w.client, "SELECT v FROM ks.t WHERE k = ?").ID
			insert = w.prepared(t, w.client, "INSERT INTO ks.t (k, v) VALUES (?, ?)").ID
		}
		r := w.run(w.client, (*Session).Execute, Request{ID: insert, Values: [][]byte{i32(1), []byte("v")}})
		if got := chargeOf(r); r.Err != nil || got != c.wrote {
			t.Errorf("after %q an INSERT tells %v, want %v; %v", c.ddl, got, c.wrote, r.Err)
		}
		r = w.run(w.client, (*Session).Execute, Request{ID: id, Values: [][]byte{i32(1)}})
		if got := chargeOf(r); r.Err != nil || got != c.read {
			t.Errorf("after %q a SELECT tells %v, want %v; %v", c.ddl, got, c.read, r.Err)
		}
	}
}
