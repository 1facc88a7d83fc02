// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// lateCoordinator rejects writes as stale after the method has returned and the client's buffer has been overwritten.
// The field stale is the number of writes to reject. The schema changes before each retry.
type lateCoordinator struct {
	write.Coordinator
	mu       sync.Mutex
	stale    int
	change   func()
	returned chan struct{} // closed after the method has returned
}

func (l *lateCoordinator) refuses(done func(error)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale == 0 {
		return false
	}
	l.stale--
	go func() {
		<-l.returned
		l.change()
		done(coordinator.ErrStaleSchema)
	}()
	return true
}

func (l *lateCoordinator) Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions,
	done command.Completion) {
	if !l.refuses(func(err error) { done.Done(command.Failed(err)) }) {
		l.Coordinator.Write(ctx, ms, o, done)
	}
}

func (l *lateCoordinator) ConditionalWrite(ctx context.Context, c *command.Conditional, o coordinator.WriteOptions,
	done command.Completion) {
	if !l.refuses(func(err error) { done.Done(command.Failed(err)) }) {
		l.Coordinator.ConditionalWrite(ctx, c, o, done)
	}
}

// TestStaleAfterReturn checks (SE1) with remote replicas. A write that is rejected as stale after the method has
// returned must be bound and sent again. The write must contain the original values, even though the client's buffer
// has been reused.
func TestStaleAfterReturn(t *testing.T) {
	for _, test := range []struct {
		name    string
		method  func(*Session, context.Context, *Call) Status
		request func(w *fixture, bytes func(string) []byte) Request
		stale   int
		want    []string
		err     bool
	}{
		{"execute", (*Session).Execute, func(w *fixture, b func(string) []byte) Request {
			return Request{ID: w.prepared(t, w.client, "INSERT INTO ks.t (k, v) VALUES (?, ?)").ID,
				Values: [][]byte{b("key"), b("value")}}
		}, 1, []string{"key", "value"}, false},
		{"execute, twice, by name", (*Session).Execute, func(w *fixture, b func(string) []byte) Request {
			return Request{ID: w.prepared(t, w.client, "INSERT INTO ks.t (k, v) VALUES (?, ?)").ID,
				Values: [][]byte{b("value"), b("key")}, Names: [][]byte{b("v"), b("k")}}
		}, 2, []string{"key", "value"}, false},
		{"condition", (*Session).Execute, func(w *fixture, b func(string) []byte) Request {
			return Request{ID: w.prepared(t, w.client, "INSERT INTO ks.t (k, v) VALUES (?, ?) IF NOT EXISTS").ID,
				Values: [][]byte{b("key"), b("value")}}
		}, 1, []string{"key", "value"}, false},
		{"query", (*Session).Query, func(_ *fixture, b func(string) []byte) Request {
			return Request{Text: b("INSERT INTO ks.t (k, v) VALUES ('key', ?)"), Values: [][]byte{b("value")}}
		}, 1, []string{"key", "value"}, false},
		{"batch", (*Session).Batch, func(_ *fixture, b func(string) []byte) Request {
			return Request{Keyspace: b("ks"), Statements: []BatchStatement{
				{Text: b("INSERT INTO t (k) VALUES (?)"), Values: [][]byte{b("key")}},
				{Text: b("UPDATE t SET v = ? WHERE k = 'key'"), Values: [][]byte{b("value")}},
			}}
		}, 1, []string{"key", "value"}, false},
		{"batch of counters", (*Session).Batch, func(_ *fixture, b func(string) []byte) Request {
			return Request{BatchKind: Counter, Statements: []BatchStatement{
				{Text: b("UPDATE ks.c SET n = n + 1 WHERE k = 1")}, {Text: b("UPDATE ks.c SET n = n + 1 WHERE k = 2")},
			}}
		}, 1, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, Options{StaleAfterReturn: true})
			w.query(t, "CREATE TABLE ks.t (k text PRIMARY KEY, v text)")
			w.query(t, "CREATE TABLE ks.c (k int PRIMARY KEY, n counter)")
			late := &lateCoordinator{Coordinator: w.coordinator, stale: test.stale, returned: make(chan struct{})}
			columns := "abcdefgh"
			late.change = func() {
				if test.err {
					return
				}
				late.mu.Lock()
				name := columns[:1]
				columns = columns[1:]
				late.mu.Unlock()
				if err := w.try("ALTER TABLE ks.t ADD new_" + name + " int"); err != nil {
					t.Error(err)
				}
			}
			w.writes = write.NewExecutor(late, write.Options{})
			var buffer [][]byte
			c := &Call{Request: test.request(w, func(s string) []byte {
				buffer = append(buffer, []byte(s))
				return buffer[len(buffer)-1]
			})}
			c.Request.Version, c.Request.Consistency, c.Request.Serial = 5, dberr.Quorum, dberr.Serial
			done := make(completionChannel, 1)
			c.CompleteTo(done)
			status := test.method(w.client, context.Background(), c)
			if status == Offload {
				c.MayBlock = true
				status = test.method(w.client, context.Background(), c)
			}
			for _, b := range buffer {
				copy(b, strings.Repeat("#", len(b)))
			}
			close(late.returned)
			if status != Pending {
				t.Fatalf("status %d, %v", status, c.Result.Err)
			}
			<-done
			if test.err {
				if _, ok := errors.AsType[*dberr.WriteTimeout](c.Result.Err); !ok {
					t.Errorf("%v", c.Result.Err)
				}
				return
			}
			if c.Result.Err != nil || len(c.Result.Warnings) > 0 {
				t.Errorf("%v, %q", c.Result.Err, c.Result.Warnings)
			}
			if diff := cmp.Diff(test.want, cells(w.query(t, "SELECT k, v FROM ks.t"))); diff != "" {
				t.Errorf("what is stored (-want +got):\n%s", diff)
			}
			if late.stale != 0 {
				t.Errorf("%d refusals are left", late.stale)
			}
		})
	}
}

// TestRequestCopyKeepsNulls checks that an empty value remains empty and a null remains null, even if the request
// contains no other data.
func TestRequestCopyKeepsNulls(t *testing.T) {
	k := new(requestCopy)
	r := Request{Values: [][]byte{{}, nil}}
	for range 2 {
		k.copyRequest(&r)
		if r.Values[0] == nil || len(r.Values[0]) > 0 || r.Values[1] != nil {
			t.Errorf("an empty value and a null became %#v", r.Values)
		}
		k.restore(&r)
	}
}

// TestTableDroppedDuringRequest checks that a request whose table is dropped during its execution receives the same
// error as a later request. A node updates its routes before its catalog.
func TestTableDroppedDuringRequest(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k text PRIMARY KEY, v text)")
	table := w.catalog.Snapshot().Table("ks", "t")
	co := w.coordinator
	co.SetTopology(co.Topology().DropTable(table.ID))
	for _, text := range []string{
		"INSERT INTO ks.t (k, v) VALUES ('a', 'b')", "INSERT INTO ks.t (k, v) VALUES ('a', 'b') IF NOT EXISTS",
		"SELECT * FROM ks.t", "SELECT * FROM ks.t WHERE k = 'a'",
		"BEGIN BATCH INSERT INTO ks.t (k, v) VALUES ('a', 'b'); INSERT INTO ks.t (k, v) VALUES ('c', 'b'); APPLY BATCH",
		"TRUNCATE ks.t",
	} {
		if err := w.try(text); err == nil || err.Error() != "table t does not exist" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
