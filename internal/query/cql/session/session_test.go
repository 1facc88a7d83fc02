// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// TestValues checks the assignment of values to markers by position and by name, including null and unset values. A
// request with an incorrect number of values must be rejected.
func TestValues(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, a text, b text)")
	insert := w.prepared(t, w.client, "INSERT INTO ks.t (k, a, b) VALUES (?, ?, :named)")
	if got := []string{insert.Bind[0].Name, insert.Bind[1].Name, insert.Bind[2].Name}; !slices.Equal(got,
		[]string{"k", "a", "named"}) || !slices.Equal(insert.PKIndexes, []uint16{0}) {
		t.Errorf("markers %v, partition key %v", got, insert.PKIndexes)
	}
	execute := func(r Request) error {
		r.ID = insert.ID
		return w.run(w.client, (*Session).Execute, r).Err
	}
	names := func(n ...string) (out [][]byte) {
		for _, s := range n {
			out = append(out, []byte(s))
		}
		return out
	}
	for _, c := range []struct {
		name    string
		request Request
		err     string
		row     []string
	}{
		{name: "by position", request: Request{Values: [][]byte{i32(1), []byte("x"), []byte("y")}},
			row: []string{"x", "y"}},
		{name: "unset keeps", request: Request{Values: [][]byte{i32(1), nil, []byte("z")},
			Unset: []bool{false, true, false}}, row: []string{"x", "z"}},
		{name: "null deletes", request: Request{Values: [][]byte{i32(1), nil, []byte("z")}},
			row: []string{"null", "z"}},
		{name: "by name", request: Request{Values: [][]byte{[]byte("n"), []byte("m"), i32(1)},
			Names: names("named", "a", "k")}, row: []string{"m", "n"}},
		{name: "unset by name", request: Request{Values: [][]byte{nil, []byte("p"), i32(1)},
			Unset: []bool{true, false, false}, Names: names("named", "a", "k")},
			row: []string{"p", "n"}},
		{name: "unset key", request: Request{Values: [][]byte{nil, []byte("x"), []byte("y")},
			Unset: []bool{true, false, false}}, err: "Invalid unset value for column k"},
		{name: "null key", request: Request{Values: [][]byte{nil, []byte("x"), []byte("y")}},
			err: "Invalid null value in condition for column k"},
		{name: "too few", request: Request{Values: [][]byte{i32(1)}},
			err: "there were 3 markers(?) in CQL but 1 bound variables"},
		{name: "too many", request: Request{Values: [][]byte{i32(1), nil, nil, nil}},
			err: "there were 3 markers(?) in CQL but 4 bound variables"},
		{name: "name missing", request: Request{Values: [][]byte{i32(1), nil}, Names: names("k", "a")},
			err: "there were 3 markers(?) in CQL but 2 bound variables"},
	} {
		got := ""
		if err := execute(c.request); err != nil {
			got = err.Error()
		}
		if got != c.err {
			t.Errorf("%s: got error %q, want %q", c.name, got, c.err)
		}
		if c.err == "" {
			if diff := cmp.Diff(c.row, cells(w.query(t, "SELECT a, b FROM ks.t WHERE k = 1"))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

// TestKeyspaceOfTheRequest checks that a request's keyspace (protocol 5) applies only to this request.
func TestKeyspaceOfTheRequest(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	if r := w.run(w.client, (*Session).Query, Request{Version: 5, Text: []byte("SELECT * FROM t"),
		Keyspace: []byte("ks")}); r.Err != nil {
		t.Error(r.Err)
	}
	if err := w.try("SELECT * FROM t"); err != errNoKeyspace {
		t.Errorf("the next request: %v", err)
	}
	batch := Request{Version: 5, Keyspace: []byte("ks"),
		Statements: []BatchStatement{{Text: []byte("INSERT INTO t (k) VALUES (1)")}}}
	if r := w.run(w.client, (*Session).Batch, batch); r.Err != nil {
		t.Error(r.Err)
	}
	r := w.query(t, "USE ks")
	if r.Kind != SetKeyspace || r.Keyspace != "ks" {
		t.Errorf("USE answers %v %q", r.Kind, r.Keyspace)
	}
	if got := w.query(t, "SELECT * FROM t"); got.RowCount != 1 {
		t.Errorf("%d rows", got.RowCount)
	}
	if err := w.try("USE nope"); err == nil || err.Error() != "Keyspace 'nope' does not exist" {
		t.Errorf("USE of what is not there: %v", err)
	}
	w.query(t, "SELECT * FROM t") // the session's keyspace is still ks
}

// TestNow checks that a request's current time (protocol 5) determines expiry for reads and writes.
func TestNow(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	const then = 2_000_000_000
	at := func(text string, now int32) *Result {
		r := w.run(w.client, (*Session).Query, Request{Version: 5, Text: []byte(text), Now: now, HasNow: true})
		if r.Err != nil {
			t.Fatalf("%s: %v", text, r.Err)
		}
		return r
	}
	at("INSERT INTO ks.t (k, v) VALUES (1, 1) USING TTL 100", then)
	for _, c := range []struct {
		now  int32
		rows int
	}{{then, 1}, {then + 99, 1}, {then + 100, 0}} {
		if got := at("SELECT * FROM ks.t WHERE k = 1", c.now).RowCount; got != c.rows {
			t.Errorf("%d s after the write: %d rows, want %d", c.now-then, got, c.rows)
		}
	}
	if got := cells(at("SELECT ttl(v) FROM ks.t WHERE k = 1", then+40)); got[0] != string(i32(60)) {
		t.Errorf("ttl after 40 of 100 s is %x", got[0])
	}
}

// TestBatches checks batch messages with texts, statement IDs, and values. It also checks which batches are rejected.
func TestBatches(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
	insert := w.prepared(t, w.client, "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
	query := w.prepared(t, w.client, "SELECT * FROM ks.t")
	item := func(k, c int32, v string) BatchStatement {
		return BatchStatement{Prepared: true, ID: insert.ID, Values: [][]byte{i32(k), i32(c), []byte(v)}}
	}
	for _, c := range []struct {
		name  string
		items []BatchStatement
		err   string
	}{
		{"empty", nil, ""},
		{"mixed", []BatchStatement{item(1, 1, "a"), {Text: []byte("INSERT INTO ks.t (k, c, v) VALUES (2, ?, 'b')"),
			Values: [][]byte{i32(2)}}}, ""},
		{"select by text", []BatchStatement{item(3, 1, "a"), {Text: []byte("SELECT * FROM ks.t")}},
			"Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."},
		{"select by id", []BatchStatement{{Prepared: true, ID: query.ID}},
			"Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."},
		{"unknown id", []BatchStatement{item(3, 1, "a"), {Prepared: true, ID: [16]byte{7}}},
			(&dberr.Unprepared{ID: [16]byte{7}}).Error()},
		{"syntax", []BatchStatement{item(3, 1, "a"), {Text: []byte("INSER")}},
			"line 1:0 no viable alternative at input 'INSER' ([INSER])"},
	} {
		r := w.run(w.client, (*Session).Batch, Request{Statements: c.items})
		got := ""
		if r.Err != nil {
			got = r.Err.Error()
		}
		if got != c.err {
			t.Errorf("%s: got error %q, want %q", c.name, got, c.err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, cells(w.query(t, "SELECT v FROM ks.t WHERE k IN (1, 2, 3)"))); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestTraces checks that queries, prepared statements, batches, PREPARE, DDL, and failed requests leave complete
// traces. Each trace must consist of a session with a duration and ordered events.
func TestTraces(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	client := w.NewSession(Client{Remote: netip.MustParseAddrPort("10.0.0.9:999"),
		Local: netip.MustParseAddrPort("10.0.0.1:9042")})
	insert := w.prepared(t, client, "INSERT INTO ks.t (k, v) VALUES (?, ?)")
	for _, c := range []struct {
		name   string
		method func(*Session, context.Context, *Call) Status
		r      Request
		want   []string // request, parameters
		event  string
		fails  bool
	}{
		{"query", (*Session).Query, Request{Text: []byte("SELECT * FROM ks.t"), PageSize: 10},
			[]string{traceQuery,
				"consistency_level=ONE page_size=10 query=SELECT * FROM ks.t serial_consistency_level=SERIAL"},
			"Read from 2 physical partitions of table t", false},
		{"execute", (*Session).Execute, Request{ID: insert.ID, Values: [][]byte{i32(1), i32(2)}},
			[]string{traceExecute,
				"consistency_level=ONE query=INSERT INTO ks.t (k, v) VALUES (?, ?) serial_consistency_level=SERIAL"},
			"Writing to physical partition", false},
		{"condition", (*Session).Query, Request{Text: []byte("UPDATE ks.t SET v = 3 WHERE k = 1 IF v = 2"),
			Consistency: dberr.Quorum},
			[]string{traceQuery,
				"consistency_level=QUORUM query=UPDATE ks.t SET v = 3 WHERE k = 1 IF v = 2 " +
					"serial_consistency_level=SERIAL"}, "Evaluating the conditions at physical partition", false},
		{"batch", (*Session).Batch,
			Request{Statements: []BatchStatement{{Prepared: true, ID: insert.ID, Values: [][]byte{i32(1), i32(2)}}}},
			[]string{traceBatch, "consistency_level=ONE serial_consistency_level=SERIAL"},
			"Writing to physical partition", false},
		{"prepare", (*Session).Prepare, Request{Text: []byte("SELECT v FROM ks.t")},
			[]string{tracePrepare, "query=SELECT v FROM ks.t"}, "Executing request", false},
		{"ddl", (*Session).Query, Request{Text: []byte("CREATE TABLE ks.u (k int PRIMARY KEY)")},
			[]string{traceQuery,
				"consistency_level=ONE query=CREATE TABLE ks.u (k int PRIMARY KEY) serial_consistency_level=SERIAL"},
			"Executing request", false},
		{"failure", (*Session).Query, Request{Text: []byte("TRUNCATE ks.nope")},
			[]string{traceQuery, "consistency_level=ONE query=TRUNCATE ks.nope serial_consistency_level=SERIAL"},
			"Executing request", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Tracing = true
			r := w.run(client, c.method, c.r)
			if (r.Err != nil) != c.fails || !r.HasTrace {
				t.Fatalf("got %v, trace %v", r.Err, r.HasTrace)
			}
			id := fmt.Sprintf("%x-%x-%x-%x-%x", r.TraceID[:4], r.TraceID[4:6], r.TraceID[6:8], r.TraceID[8:10],
				r.TraceID[10:])
			session := w.query(t,
				"SELECT request, parameters, duration, client, coordinator, coordinator_port, started_at FROM "+
					"system_traces.sessions WHERE session_id = "+id)
			got := cells(session)
			if len(got) != 7 {
				t.Fatalf("the session has %d cells", len(got))
			}
			if diff := cmp.Diff(c.want, []string{got[0], formatMap(got[1])}); diff != "" {
				t.Errorf("session (-want +got):\n%s", diff)
			}
			if got[3] != "\x0a\x00\x00\x09" || got[4] != "\x0a\x00\x00\x01" || got[5] != string(i32(9042)) {
				t.Errorf("client %x, coordinator %x port %x", got[3], got[4], got[5])
			}
			duration := binary.BigEndian.Uint32([]byte(got[2]))
			events := cells(w.query(t, "SELECT activity, source_elapsed FROM system_traces.events WHERE session_id = "+
				id))
			if duration == 0 || !slices.ContainsFunc(events, func(s string) bool {
				return strings.HasPrefix(s, c.event)
			}) || events[len(events)-2] != "Request complete" {
				t.Errorf("after %d us: %q", duration, events)
			}
			last := uint32(1)
			for i := 1; i < len(events); i += 2 {
				elapsed := binary.BigEndian.Uint32([]byte(events[i]))
				if elapsed < last {
					t.Errorf("event %q at %d us comes behind one at %d us", events[i-1], elapsed, last)
				}
				last = elapsed
			}
			if last != duration {
				t.Errorf("the last event is at %d us, the duration is %d us", last, duration)
			}
		})
	}
}

// formatMap formats a map<text, text>.
func formatMap(wire string) string {
	r := &Result{Cells: []byte(wire)[4:]}
	var parts []string
	for pair := range slices.Chunk(cells(r), 2) {
		parts = append(parts, pair[0]+"="+pair[1])
	}
	return strings.Join(parts, " ")
}

// TestWarningsWithErrors checks that a failed statement also returns its warnings.
func TestWarningsWithErrors(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))")
	if r := w.query(t, "SELECT count(*) FROM ks.t"); !slices.Equal(r.Warnings,
		[]string{"Aggregation query used without partition key"}) {
		t.Errorf("warnings %q", r.Warnings)
	}
	r := w.run(w.client, (*Session).Query, Request{Text: []byte("SELECT count(*) FROM ks.t"),
		PagingState: []byte("nonsense")})
	if r.Err == nil || !slices.Equal(r.Warnings, []string{"Aggregation query used without partition key"}) {
		t.Errorf("error %v, warnings %q", r.Err, r.Warnings)
	}
}

// TestUnpagedBound checks that the size of unpaged results is limited, including the results of DESCRIBE. Paged reads
// must return the same rows.
func TestUnpagedBound(t *testing.T) {
	w := newFixture(t, Options{Limits: Limits{ResultBytesMax: 4000}})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
	for i := range 20 {
		w.query(t, fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (1, %d, '%s')", i, strings.Repeat("x", 300)))
	}
	for text, want := range map[string]string{
		"SELECT * FROM ks.t": "The result exceeds 4000 bytes, the maximum size of an unpaged " +
			"result: set a page size or a LIMIT",
		"SELECT * FROM ks.t WHERE k = 1": "The result exceeds 4000 bytes, the maximum size of an unpaged " +
			"result: set a page size or a LIMIT",
		"DESCRIBE FULL SCHEMA": "The schema exceeds 4000 bytes, the maximum size of an unpaged " +
			"result: set a page size, or describe a single object",
	} {
		r := w.run(w.client, (*Session).Query, Request{Text: []byte(text), PageSize: -1})
		if invalid, ok := r.Err.(*dberr.Invalid); !ok || invalid.Error() != want {
			t.Errorf("%s: got %v, want %q", text, r.Err, want)
		}
		rows, pages := 0, 0
		for state, more := []byte(nil), true; more; pages++ {
			r := w.run(w.client, (*Session).Query, Request{Text: []byte(text), PageSize: 5000, PagingState: state})
			if r.Err != nil {
				t.Fatalf("%s: %v", text, r.Err)
			}
			rows += r.RowCount
			state, more = r.PagingState, r.PagingState != nil
		}
		if rows < 20 {
			t.Errorf("%s: %d rows in %d pages", text, rows, pages)
		}
	}
	if r := w.run(w.client, (*Session).Query, Request{Text: []byte("SELECT * FROM ks.t LIMIT 5"),
		PageSize: -1}); r.Err != nil || r.RowCount != 5 {
		t.Errorf("with a LIMIT: %d rows, %v", r.RowCount, r.Err)
	}
}

// TestResultsBound checks that the total size of unpaged results is limited and that the memory is always released.
func TestResultsBound(t *testing.T) {
	w := newFixture(t, Options{Limits: Limits{ResultBytesMax: 64 << 20, ResultsBytesMax: 20 << 20}})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
	insert := w.prepared(t, w.client, "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
	for i := range int32(12) {
		if r := w.run(w.client, (*Session).Execute,
			Request{ID: insert.ID, Values: [][]byte{i32(i % 2), i32(i), make([]byte, 2<<20)}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	r := w.run(w.client, (*Session).Query, Request{Text: []byte("SELECT * FROM ks.t")})
	if overloaded, ok := r.Err.(*dberr.Overloaded); !ok ||
		overloaded.Message != "Too many large unpaged results are being read. Set a page size" {
		t.Errorf("24 MiB at a bound of 20 MiB: %v", r.Err)
	}
	for range 3 {
		if r := w.query(t, "SELECT * FROM ks.t WHERE k = 1"); r.RowCount != 6 {
			t.Errorf("%d rows", r.RowCount)
		}
	}
	if used := w.results.Used(); used != 0 {
		t.Errorf("%d bytes were not given back", used)
	}
}

// TestDescribePages checks that the pages of DESCRIBE contain the complete result. A request for a page of an older
// schema must be rejected.
func TestDescribePages(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	text := []byte("DESCRIBE FULL SCHEMA")
	want := cells(w.run(w.client, (*Session).Query, Request{Text: text}))
	var got []string
	var state []byte
	for {
		r := w.run(w.client, (*Session).Query, Request{Text: text, PageSize: 7, PagingState: state})
		if r.Err != nil || r.RowCount > 7 {
			t.Fatalf("%d rows, %v", r.RowCount, r.Err)
		}
		if got = append(got, cells(r)...); r.PagingState == nil {
			break
		}
		state = r.PagingState
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %d cells, the whole has %d", len(got), len(want))
	}
	w.query(t, "DROP TABLE ks.t")
	r := w.run(w.client, (*Session).Query, Request{Text: text, PageSize: 7, PagingState: state})
	if r.Err == nil || !strings.HasPrefix(r.Err.Error(), "The schema has changed since the previous page") {
		t.Errorf("a page of the old schema: %v", r.Err)
	}
}

// TestInline checks (SE3). A connection's goroutine must execute only short requests. Workers must execute all other
// requests.
func TestInline(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v int, n list<int>, PRIMARY KEY (k, c))")
	for text, want := range map[string]bool{
		"SELECT * FROM ks.t WHERE k = 1":                                 true,
		"SELECT * FROM ks.t":                                             false,
		"SELECT count(*) FROM ks.t WHERE k = 1":                          false,
		"INSERT INTO ks.t (k, c) VALUES (1, 1)":                          true,
		"INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS":            false,
		"UPDATE ks.t SET n[0] = 1 WHERE k = 1 AND c = 1":                 false,
		"BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (1, 1); APPLY BATCH": false,
		"USE ks":                                true,
		"TRUNCATE ks.t":                         false,
		"DESCRIBE TABLES":                       false,
		"CREATE TABLE ks.u (k int PRIMARY KEY)": false,
		"INSERT INTO ks.t (k, c) VALUES (1, 1) -- " + strings.Repeat("x", inlineTextMax) + "\n": false,
	} {
		c := &Call{Request: Request{Text: []byte(text), Version: 4, Consistency: dberr.One, PageSize: 100}}
		done := make(completionChannel, 1)
		c.CompleteTo(done)
		status := w.client.Query(context.Background(), c)
		if status == Pending {
			<-done
		}
		if (status != Offload) != want {
			t.Errorf("%.100s: executed in place %v, want %v", text, status != Offload, want)
		}
	}
	c := &Call{Request: Request{Text: []byte("SELECT * FROM ks.t WHERE k = 1 AND c = 1"), Tracing: true}}
	if w.client.Query(context.Background(), c) != Offload {
		t.Error("a traced request was executed in place")
	}
}

// TestAnnouncements checks (SE4). Schema changes without an effect must not be published.
func TestAnnouncements(t *testing.T) {
	w := newFixture(t, Options{})
	var published []SchemaChange
	defer w.catalog.Subscribe(func(p catalog.Publication) {
		for _, e := range p.Events {
			published = append(published, SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace,
				Name: e.Name})
		}
	})()
	for _, text := range []string{"CREATE TABLE ks.t (k int PRIMARY KEY)",
		"CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY)", "DROP TABLE ks.t", "DROP TABLE IF EXISTS ks.t"} {
		w.query(t, text)
	}
	want := []SchemaChange{{Change: "CREATED", Target: "TABLE", Keyspace: "ks", Name: "t"},
		{Change: "DROPPED", Target: "TABLE", Keyspace: "ks", Name: "t"}}
	if diff := cmp.Diff(want, published); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)"); r.Kind != SchemaChanged ||
		!cmp.Equal(r.Change, want[0]) {
		t.Errorf("the client is told %v %+v", r.Kind, r.Change)
	}
}

// TestWritesDuringAlter checks that writes succeed while the table changes. Unprepared writes must never fail. Prepared
// writes may fail only with the error Unprepared.
func TestWritesDuringAlter(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var written [2]int
	var first [2]chan struct{} // closed when the writer has written its first row
	for i := range 2 {
		first[i] = make(chan struct{})
		wg.Go(func() {
			begun := sync.OnceFunc(func() { close(first[i]) })
			defer begun()
			s := w.NewSession(Client{})
			text := []byte("INSERT INTO ks.t (k, c, v) VALUES (?, ?, 1)")
			for n := int32(0); ; n++ {
				if n > 0 {
					begun()
				}
				select {
				case <-stop:
					written[i] = int(n)
					return
				default:
				}
				method, r := (*Session).Query, Request{Text: text, Values: [][]byte{i32(int32(i)), i32(n)}}
				if i == 1 {
					p := w.run(s, (*Session).Prepare, Request{Text: text})
					if p.Err != nil {
						t.Error(p.Err)
						return
					}
					method, r.ID = (*Session).Execute, p.Prepared.ID
				}
				err := w.run(s, method, r).Err
				if _, again := err.(*dberr.Unprepared); again {
					n--
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 30 {
		if i == 15 { // both writers run during the second half of the changes
			<-first[0]
			<-first[1]
		}
		if err := w.try(fmt.Sprintf("ALTER TABLE ks.t ADD c%d int", i)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	for i, want := range written {
		if got := w.query(t, fmt.Sprintf("SELECT * FROM ks.t WHERE k = %d", i)).RowCount; got != want || want == 0 {
			t.Errorf("writer %d: %d rows written, %d found", i, want, got)
		}
	}
}

// TestLatency checks that every successful or failed statement is counted once under its kind and in the correct
// bucket.
func TestLatency(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	before := w.counts()
	w.query(t, "SELECT * FROM ks.t")
	w.query(t, "INSERT INTO ks.t (k) VALUES (1)")
	w.query(t, "INSERT INTO ks.t (k) VALUES (1) IF NOT EXISTS")
	w.query(t, "BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); APPLY BATCH")
	w.run(w.client, (*Session).Batch,
		Request{Statements: []BatchStatement{{Text: []byte("INSERT INTO ks.t (k) VALUES (1)")}}})
	w.query(t, "DROP TABLE ks.t")
	w.query(t, "DESCRIBE TABLES")
	_ = w.try("SELECT * FROM ks.t")
	_ = w.try("DROP TABLE ks.t")
	_ = w.try("nonsense")
	want := map[string][2]uint64{"select": {1, 0}, "modify": {1, 0}, "conditional": {1, 0}, "batch": {2, 0},
		"schema": {2, 1}, "other": {3, 2}}
	got := w.counts()
	for kind := range got {
		got[kind] = [2]uint64{got[kind][0] - before[kind][0], got[kind][1] - before[kind][1]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statements and failures (-want +got):\n%s", diff)
	}
	var l Latency
	for _, d := range []time.Duration{0, 16 * time.Microsecond, 17 * time.Microsecond, 33 * time.Microsecond,
		time.Hour} {
		l.record(d, false)
	}
	count, seconds, _, cumulative := l.Snapshot()
	if count != 5 || seconds != 3600.000066 || cumulative[16e-6] != 2 || cumulative[32e-6] != 3 ||
		cumulative[64e-6] != 4 || cumulative[float64(16<<19)/1e6] != 4 {
		t.Errorf("%d in %v s: %v", count, seconds, cumulative)
	}
}

func (w *fixture) counts() map[string][2]uint64 {
	out := map[string][2]uint64{}
	for _, k := range Kinds() {
		n, _, failed, _ := w.Latency(k).Snapshot()
		out[k.String()] = [2]uint64{n, failed}
	}
	return out
}
