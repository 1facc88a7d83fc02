// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// unsteady is a reader whose replica loses its leadership at given positions.
type unsteady struct {
	read.Reader
	// passed counts the partitions and rows that all reads have returned. A read fails before the item with the index
	// places[0].
	passed int
	places []int
	failed int
}

func (u *unsteady) lost() bool {
	if len(u.places) == 0 || u.passed < u.places[0] {
		return false
	}
	u.places, u.passed, u.failed = u.places[1:], 0, u.failed+1
	return true
}

func (u *unsteady) Read(ctx context.Context, r *command.Read, v command.Visitor) error {
	err := u.Reader.Read(ctx, r, &relay{u, v})
	if err == nil && u.lost() {
		err = coordinator.ErrRepeat // the read returned all rows but could not confirm them
	}
	return err
}

// relay counts the items that it forwards.
type relay struct {
	u *unsteady
	v command.Visitor
}

func (r *relay) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if r.u.lost() {
		return command.Stop, coordinator.ErrRepeat
	}
	r.u.passed++
	return r.v.Partition(t, key, static)
}

func (r *relay) Row(clustering []byte, found *row.Row) (command.Step, error) {
	if r.u.lost() {
		return command.Stop, coordinator.ErrRepeat
	}
	r.u.passed++
	return r.v.Row(clustering, found)
}

// page is a result page in the form that a client receives.
type page struct {
	Cells, State string
	Rows         int
	Warnings     []string
	Err          error
}

// fetch executes a statement on a reader, like a worker.
func (w *fixture) fetch(st *statement, reader read.Reader, r Request) page {
	stored := st.reader
	st.reader = reader
	defer func() { st.reader = stored }()
	c := &Call{Request: r, MayBlock: true}
	c.Request.Version, c.Request.Consistency, c.Request.Serial = 4, dberr.Quorum, dberr.Serial
	if status := w.client.start(context.Background(), c, st, traceQuery, w.opts.Clock.Wall()); status != Done {
		return page{Err: fmt.Errorf("status %d", status)}
	}
	res := &c.Result
	return page{string(res.Cells), string(res.PagingState), res.RowCount, res.Warnings, res.Err}
}

// TestReadRestart checks (SE5) at every position of every page. After one or several restarts, the client must receive
// the same rows, aggregates, groups, warnings, and next page.
func TestReadRestart(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int, c int, s int static, v int, x text, PRIMARY KEY (k, c))")
	w.query(t, "CREATE INDEX ON ks.t (x)")
	for k := range 4 {
		w.query(t, fmt.Sprintf("INSERT INTO ks.t (k, s) VALUES (%d, %d)", k, 10*k))
		for c := range 4 * (k % 3) {
			w.query(t, fmt.Sprintf("INSERT INTO ks.t (k, c, v, x) VALUES (%d, %d, %d, 'x%d')", k, c, k*c, c%2))
		}
	}
	for _, test := range []struct {
		text string
		page int32
	}{
		{"SELECT * FROM ks.t", 0},
		{"SELECT * FROM ks.t", 3},
		{"SELECT * FROM ks.t LIMIT 7", 4},
		{"SELECT * FROM ks.t PER PARTITION LIMIT 2", 3},
		{"SELECT * FROM ks.t PER PARTITION LIMIT 3 LIMIT 5", 0},
		{"SELECT DISTINCT k, s FROM ks.t", 2},
		{"SELECT count(*), sum(v), min(c), max(c), avg(v) FROM ks.t", 0},
		{"SELECT count(*) FROM ks.t", 2},
		{"SELECT k, c, count(v), sum(v) FROM ks.t GROUP BY k", 0},
		{"SELECT k, c, count(v), sum(v) FROM ks.t GROUP BY k, c", 2},
		{"SELECT k, max(c) FROM ks.t GROUP BY k LIMIT 2", 1},
		{"SELECT JSON k, c, s, v FROM ks.t", 3},
		{"SELECT * FROM ks.t WHERE k = 2", 3},
		{"SELECT * FROM ks.t WHERE k = 2 ORDER BY c DESC LIMIT 5", 2},
		{"SELECT sum(v) FROM ks.t WHERE k IN (1, 2)", 0},
		{"SELECT * FROM ks.t WHERE k IN (2, 0, 1) AND c > 1", 2},
		{"SELECT * FROM ks.t WHERE k IN (1, 2) ORDER BY c DESC LIMIT 6", 0},
		{"SELECT * FROM ks.t WHERE v > 1 ALLOW FILTERING", 2},
		{"SELECT * FROM ks.t WHERE token(k) > -5000000000000000000", 2},
		{"SELECT count(*) FROM ks.t WHERE k = 9", 0},
	} {
		t.Run(fmt.Sprintf("%s/%d", test.text, test.page), func(t *testing.T) {
			st, err := w.parse([]byte(test.text), "")
			if err != nil {
				t.Fatal(err)
			}
			state := ""
			for pages := 0; ; pages++ {
				r := Request{Text: []byte(test.text), PageSize: test.page}
				if state != "" {
					r.PagingState = []byte(state)
				}
				calm := &unsteady{Reader: st.reader}
				want := w.fetch(st, calm, r)
				if want.Err != nil {
					t.Fatal(want.Err)
				}
				w.disturb(t, st, r, want, calm.passed)
				if state = want.State; state == "" || pages == 20 {
					break
				}
			}
		})
	}
	if n := w.results.Used(); n != 0 {
		t.Errorf("%d bytes of results are still held", n)
	}
	if w.ReadRestarts() == 0 {
		t.Error("no repetition was counted")
	}
}

// disturb interrupts the read of a page at each position and compares the results.
func (w *fixture) disturb(t *testing.T, st *statement, r Request, want page, places int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(places)))
	for place := range places + 1 {
		tries := [][]int{{place}}
		if place%4 == 0 {
			tries = append(tries, []int{place, random.IntN(places + 1), random.IntN(places + 1)})
		}
		for _, at := range tries {
			u := &unsteady{Reader: st.reader, places: append([]int(nil), at...)}
			got := w.fetch(st, u, r)
			if diff := cmp.Diff(want, got); diff != "" || u.failed != len(at) {
				t.Fatalf("interrupted at %v of %d, %d times (-want +got):\n%s", at, places, u.failed, diff)
			}
		}
	}
}

// TestReadRestartEnds checks that restarts end. After the read timeout, the client must receive a timeout error. If the
// connection closes, the read must end immediately.
func TestReadRestartEnds(t *testing.T) {
	var clock atomic.Int64
	w := newFixture(t, Options{Limits: Limits{ReadTimeout: time.Minute}, Clock: fakeclock.Func(func() time.Time {
		return time.Unix(1_700_000_000+10*clock.Add(1), 0)
	})})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	w.query(t, "INSERT INTO ks.t (k) VALUES (1)")
	st, err := w.parse([]byte("SELECT * FROM ks.t"), "")
	if err != nil {
		t.Fatal(err)
	}
	got := w.fetch(st, never{}, Request{})
	if e, ok := errors.AsType[*dberr.ReadTimeout](got.Err); !ok || e.Level != dberr.Quorum || got.Cells != "" ||
		got.Rows != 0 {
		t.Errorf("got %+v", got)
	}
	if n := w.ReadRestarts(); n < 2 || n > 6 {
		t.Errorf("repeated %d times in a minute that has six calls of the clock", n)
	}

	ctx, cancel := context.WithCancel(context.Background())
	st.reader = never{cancel}
	c := &Call{MayBlock: true, Request: Request{Consistency: dberr.Quorum}}
	if status := w.client.start(ctx, c, st, traceQuery, w.opts.Clock.Wall()); status != Done || c.Result.Err == nil {
		t.Errorf("after the end of the connection: status %d, %v", status, c.Result.Err)
	}
}

// never is a reader whose partition has no leader.
type never struct{ called func() }

func (n never) Read(context.Context, *command.Read, command.Visitor) error {
	if n.called != nil {
		n.called()
	}
	return coordinator.ErrRepeat
}

// TestReadRestartInline checks that a connection's goroutine does not wait for an election. A worker must execute the
// request, and the result must contain no rows of the first attempt.
func TestReadRestartInline(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	w.query(t, "INSERT INTO ks.t (k, v) VALUES (1, 5)")
	st, err := w.parse([]byte("SELECT v FROM ks.t WHERE k = 1"), "")
	if err != nil {
		t.Fatal(err)
	}
	st.reader = &unsteady{Reader: st.reader, places: []int{2}}
	c := &Call{Request: Request{Consistency: dberr.Quorum, Version: 4}}
	if status := w.client.start(context.Background(), c, st, traceQuery, w.opts.Clock.Wall()); status != Offload {
		t.Fatalf("status %d", status)
	}
	c.MayBlock = true
	if status := w.client.start(context.Background(), c, st, traceQuery, w.opts.Clock.Wall()); status != Done {
		t.Fatalf("status %d", status)
	}
	if got := cells(&c.Result); c.Result.Err != nil || c.Result.RowCount != 1 ||
		!cmp.Equal(got, []string{string(i32(5))}) || len(c.Result.Warnings) > 0 {
		t.Errorf("%q, %d rows, %q, %v", got, c.Result.RowCount, c.Result.Warnings, c.Result.Err)
	}
}

// TestReadRestartIsTraced checks that restarts appear in the trace.
func TestReadRestartIsTraced(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	st, err := w.parse([]byte("SELECT v FROM ks.t WHERE k = 1"), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.fetch(st, &unsteady{Reader: st.reader, places: []int{0, 0}}, Request{Tracing: true}); got.Err != nil {
		t.Fatal(got.Err)
	}
	again := 0
	for _, activity := range cells(w.query(t, "SELECT activity FROM system_traces.events")) {
		if strings.HasPrefix(activity, "Restarting the statement") {
			again++
		}
	}
	if again != 2 {
		t.Errorf("the trace tells of %d repetitions", again)
	}
}

// outdated is a reader whose first read returns some partitions and then fails because the index was dropped.
type outdated struct {
	read.Reader
	drop func()
}

func (o *outdated) Read(ctx context.Context, r *command.Read, v command.Visitor) error {
	if o.drop == nil {
		return o.Reader.Read(ctx, r, v)
	}
	drop := o.drop
	o.drop = nil
	if err := o.Reader.Read(ctx, r, v); err != nil {
		return err
	}
	drop()
	return coordinator.ErrStaleSchema
}

// TestRebindRead checks (SE5) for a SELECT whose index is dropped during the read. The SELECT must be bound again and
// must return all rows, or the error for a SELECT that requires filtering.
func TestRebindRead(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"SELECT count(*) FROM ks.t WHERE x = 'x' ALLOW FILTERING", ""},
		{"SELECT count(*) FROM ks.t WHERE x = 'x'", "ALLOW FILTERING"},
	} {
		w := newFixture(t, Options{})
		w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, x text)")
		w.query(t, "CREATE INDEX i ON ks.t (x)")
		for k := range 20 {
			w.query(t, fmt.Sprintf("INSERT INTO ks.t (k, x) VALUES (%d, 'x')", k))
		}
		st, err := w.parse([]byte(test.text), "")
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Text: []byte(test.text)}
		want := w.fetch(st, st.reader, r)
		got := w.fetch(st, &outdated{st.reader, func() { w.query(t, "DROP INDEX ks.i") }}, r)
		switch {
		case test.want != "":
			if got.Err == nil || !strings.Contains(got.Err.Error(), test.want) {
				t.Errorf("%s: %v, want an error that names %s", test.text, got.Err, test.want)
			}
		case got.Err != nil || got.Cells != want.Cells:
			t.Errorf("%s: %q (%v), want %q", test.text, got.Cells, got.Err, want.Cells)
		}
	}
}
