// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
)

// TestSlow checks that slow requests of every kind are recorded without values and constants, and that fast requests
// are not recorded.
func TestSlow(t *testing.T) {
	log := slowlog.New(slowlog.Options{Threshold: time.Nanosecond})
	w := newFixture(t, Options{Slow: log})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	client := w.NewSession(Client{User: "app", Remote: netip.MustParseAddrPort("10.0.0.9:999")})
	insert := w.prepared(t, client, "INSERT INTO ks.t (k, v) VALUES (?, ?)")
	item := BatchStatement{Prepared: true, ID: insert.ID, Values: [][]byte{i32(2), []byte("secret")}}
	for _, c := range []struct {
		method func(*Session, context.Context, *Call) Status
		r      Request
		want   slowlog.Request
	}{
		{(*Session).Execute, Request{ID: insert.ID, Values: [][]byte{i32(1), []byte("secret")}},
			slowlog.Request{Statement: "INSERT INTO ks.t (k, v) VALUES (?, ?)", Outcome: "done"}},
		{(*Session).Batch, Request{Statements: []BatchStatement{item, item}},
			slowlog.Request{Statement: "BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (?, ?)", Outcome: "done"}},
		{(*Session).Query, Request{Text: []byte("SELECT v FROM ks.t"), PageSize: 1, Consistency: dberr.Quorum},
			slowlog.Request{Statement: "SELECT v FROM ks.t", Rows: 1, MorePages: true, Outcome: "done",
				Consistency: "QUORUM"}},
		{(*Session).Query, Request{Text: []byte("UPDATE ks.t SET v = 'secret' WHERE k = 1 IF v = 'secret'")},
			slowlog.Request{Statement: "UPDATE ks.t SET v = ? WHERE k = ? IF v = ?", Rows: 1, Outcome: "done"}},
		{(*Session).Query, Request{Text: []byte("SELECT v FROM ks.t WHERE v = 'secret'")}, slowlog.Request{}},
	} {
		before := len(log.Report("n").Requests)
		r := w.run(client, c.method, c.r)
		list := log.Report("n").Requests
		if c.want.Statement == "" {
			if r.Err == nil || len(list) != before {
				t.Errorf("%v: a statement that was not understood is among the slow ones", r.Err)
			}
			continue
		}
		if r.Err != nil || len(list) != before+1 {
			t.Fatalf("%s: %v, %d are kept", c.want.Statement, r.Err, len(list))
		}
		got := list[0]
		if got.Statement != c.want.Statement || got.Rows != c.want.Rows || got.MorePages != c.want.MorePages ||
			got.Outcome != c.want.Outcome || c.want.Consistency != "" && got.Consistency != c.want.Consistency ||
			got.User != "app" || got.Client != "10.0.0.9:999" || got.Keyspace != "ks" || got.Table != "t" ||
			got.Units <= 0 || strings.Contains(got.Statement, "secret") {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	for err, want := range map[error]string{&dberr.ReadTimeout{}: "timeout", &dberr.WriteTimeout{}: "timeout",
		&dberr.Unavailable{}: "unavailable", &dberr.Overloaded{}: "overloaded", &dberr.Unauthorized{}: "not allowed",
		errors.New("x"): "failed"} {
		if got := outcomeName(err); got != want {
			t.Errorf("%T is %q", err, got)
		}
	}

	calm := slowlog.New(slowlog.Options{Threshold: time.Hour})
	w = newFixture(t, Options{Slow: calm})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	if n := calm.Count(); n != 0 {
		t.Errorf("%d requests are slow that are not", n)
	}
}

// TestFastRequestsAllocateNothing checks (SW2) and (SE2). If the slow-query log is enabled, a fast prepared read must
// not allocate memory.
func TestFastRequestsAllocateNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector makes pools drop items")
	}
	w := newFixture(t, Options{Slow: slowlog.New(slowlog.Options{Threshold: time.Hour})})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	w.query(t, "INSERT INTO ks.t (k, v) VALUES (1, 'x')")
	call := &Call{Request: Request{Version: 4, Consistency: dberr.One, PageSize: 5000, Values: [][]byte{i32(1)},
		ID: w.prepared(t, w.client, "SELECT v FROM ks.t WHERE k = ?").ID}}
	call.CompleteTo(make(completionChannel, 1))
	read := func() {
		if w.client.Execute(context.Background(), call) != Done || call.Result.Err != nil {
			t.Fatal(call.Result.Err)
		}
	}
	if n := testing.AllocsPerRun(200, read); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// TestRunning checks that Running returns the statement and the start time of a call. After ClearRunning, Running must
// return no statement.
func TestRunning(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	for text, r := range map[string]Request{"INSERT INTO ks.t (k) VALUES (1)": {}, "BATCH": {}} {
		call := &Call{MayBlock: true, Request: r}
		done := make(completionChannel, 1)
		call.CompleteTo(done)
		method := (*Session).Query
		if call.Request.Text = []byte(text); text == "BATCH" {
			method = (*Session).Batch
			call.Request.Statements = []BatchStatement{{Text: []byte("INSERT INTO ks.t (k) VALUES (2)")}}
		}
		if at, since := call.Running(); at != "" || !since.IsZero() {
			t.Errorf("%q before the beginning", at)
		}
		if method(w.client, t.Context(), call) == Pending {
			<-done
		}
		if at, since := call.Running(); at != text || since.IsZero() {
			t.Errorf("%q since %v, want %q", at, since, text)
		}
		call.ClearRunning()
		if at, since := call.Running(); at != "" || !since.IsZero() {
			t.Errorf("%q after the end", at)
		}
	}
}
