// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const lawTables = `CREATE TABLE t (a int, b text, c text, d int, v int, w text, x int static, PRIMARY KEY ((a, b), c, d))
	WITH CLUSTERING ORDER BY (c DESC, d ASC);
CREATE INDEX ON t (v);
CREATE INDEX ON t (b);
CREATE TABLE kv (k blob PRIMARY KEY, v1 blob, v2 blob, v3 blob, v4 blob, v5 blob)`

func invariantFixture(t testing.TB) *fixture {
	w := newFixture(t)
	for _, s := range strings.Split(lawTables, ";\n") {
		w.mustDDL(t, s)
	}
	return w
}

// TestFastPathEqualsGeneralPath checks that the fast path for statements with one key and the general path for IN send
// the same commands.
func TestFastPathEqualsGeneralPath(t *testing.T) {
	w := invariantFixture(t)
	texts := []string{
		"INSERT INTO t (a, b, c, d, v, w, x) VALUES (?, ?, ?, ?, ?, ?, ?)",
		"UPDATE t SET v = ?, w = ? WHERE a = ? AND b = ? AND c = ? AND d = ?",
		"UPDATE t SET x = ? WHERE a = ? AND b = ?",
		"DELETE FROM t WHERE a = ? AND b = ? AND c = ? AND d = ?",
		"DELETE FROM t WHERE a = ? AND b = ? AND c = ?",
		"DELETE FROM t WHERE a = ? AND b = ?",
		"DELETE w, x FROM t WHERE a = ? AND b = ? AND c = ? AND d = ?",
	}
	rapid.Check(t, func(rt *rapid.T) {
		plan, err := w.prepare(rapid.SampledFrom(texts).Draw(rt, "text"))
		if err != nil {
			rt.Fatal(err)
		}
		r := w.request()
		for _, v := range plan.Variables() {
			value := rapid.SliceOfN(rapid.ByteRange('a', 'c'), 0, 4).Draw(rt, v.Name)
			if v.Type.String() == "int" {
				value = binary.BigEndian.AppendUint32(nil, rapid.Uint32().Draw(rt, v.Name))
			}
			unset := rapid.IntRange(0, 9).Draw(rt, "state")
			if unset == 0 {
				value = nil
			}
			r.Values, r.Unset = append(r.Values, value), append(r.Unset, unset == 1)
		}
		run := func(p *Plan) string {
			w.sent = nil
			o := &outcome{}
			w.executor.Execute(context.Background(), p, r, o)
			return fmt.Sprintf("%s\n%s", strings.Join(w.sent, "\n"), o)
		}
		general := *plan
		general.where.simple = false
		if short, long := run(plan), run(&general); short != long {
			rt.Fatalf("short way:\n%s\ngeneral way:\n%s", short, long)
		}
	})
}

// sink is a Coordinator that ignores writes. completed counts the completions.
type sink struct {
	bytes, completed int
}

func (s *sink) Write(_ context.Context, ms []command.Mutation, _ coordinator.WriteOptions, done command.Completion) {
	for i := range ms {
		for j := range ms[i].Ops {
			s.bytes += len(ms[i].Ops[j].Operand)
		}
	}
	done.Done(command.Outcome{})
}

func (s *sink) ConditionalWrite(_ context.Context, _ *command.Conditional, _ coordinator.WriteOptions,
	done command.Completion) {
	done.Done(command.Decided(&command.CASResult{Applied: true}, 0))
}

func (s *sink) Written(*Outcome) { s.completed++ }

var hotStatements = []struct {
	name, text string
	values     int
}{
	{"insert", "INSERT INTO kv (k, v1, v2, v3, v4, v5) VALUES (?, ?, ?, ?, ?, ?)", 6},
	{"insert ttl", "INSERT INTO kv (k, v1) VALUES (?, ?) USING TTL 100", 2},
	{"update", "UPDATE kv SET v1 = ? WHERE k = ?", 2},
	{"delete", "DELETE FROM kv WHERE k = ?", 1},
}

func hotRequest(w *fixture, values int) *Request {
	r := w.request()
	for range values {
		r.Values = append(r.Values, make([]byte, 200))
	}
	r.Timestamp, r.HasTimestamp = 1, true
	return r
}

// TestHotPathDoesNotAllocate checks (WR4).
func TestHotPathDoesNotAllocate(t *testing.T) {
	w := invariantFixture(t)
	s := &sink{}
	e := NewExecutor(s, Options{})
	for _, h := range hotStatements {
		t.Run(h.name, func(t *testing.T) {
			plan, err := w.prepare(h.text)
			if err != nil {
				t.Fatal(err)
			}
			r := hotRequest(w, h.values)
			ctx := context.Background()
			s.completed = 0
			allocs := testing.AllocsPerRun(100, func() { e.Execute(ctx, plan, r, s) })
			if raceEnabled {
				return // the race detector makes the pool drop items
			}
			if allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
			if s.completed != 101 {
				t.Errorf("completed %d times", s.completed)
			}
		})
	}
}

// BenchmarkExecute measures the work of this package for a write.
func BenchmarkExecute(b *testing.B) {
	w := invariantFixture(b)
	s := &sink{}
	e := NewExecutor(s, Options{})
	for _, h := range hotStatements {
		b.Run(h.name, func(b *testing.B) {
			plan, err := w.prepare(h.text)
			if err != nil {
				b.Fatal(err)
			}
			r := hotRequest(w, h.values)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				e.Execute(ctx, plan, r, s)
			}
		})
	}
}

// later is a Coordinator that completes writes on other goroutines after Write has returned.
type later struct {
	wg  sync.WaitGroup
	err error
}

func (l *later) Write(_ context.Context, _ []command.Mutation, _ coordinator.WriteOptions, done command.Completion) {
	l.wg.Go(func() { done.Done(command.Failed(l.err)) })
}

func (l *later) ConditionalWrite(_ context.Context, _ *command.Conditional, _ coordinator.WriteOptions,
	done command.Completion) {
	o := command.Decided(&command.CASResult{Applied: true}, 0)
	if l.err != nil {
		o = command.Failed(l.err)
	}
	l.wg.Go(func() { done.Done(o) })
}

// TestCompletedOnce checks an execution that consists of several parts. Each part is completed on another goroutine.
// The caller must receive exactly one notification, which contains the first error.
func TestCompletedOnce(t *testing.T) {
	w := newFixture(t)
	w.mustDDL(t, "CREATE TABLE cnt (k int PRIMARY KEY, n counter)")
	plan, err := w.prepare("UPDATE cnt SET n = n + 1 WHERE k IN (1, 2, 3, 4)")
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range []error{nil, &dberr.WriteTimeout{}} {
		l := &later{err: failure}
		e := NewExecutor(l, Options{})
		outcomes := make([]outcome, 50)
		for i := range outcomes {
			e.Execute(context.Background(), plan, w.request(), &outcomes[i])
		}
		l.wg.Wait()
		for i := range outcomes {
			if o := &outcomes[i]; o.completed != 1 || o.Err != failure {
				t.Fatalf("completed %d times, %v", o.completed, o.Err)
			}
		}
	}
}

// TestMutationSize checks that a statement or batch is rejected if it writes too many bytes to one logical partition.
// The limit must apply to each partition separately.
func TestMutationSize(t *testing.T) {
	w := invariantFixture(t)
	e := NewExecutor(w, Options{MutationBytesMax: 1000})
	plan, err := w.prepare("INSERT INTO kv (k, v1) VALUES (?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		sizes   []int
		refusal string
	}{
		{[]int{900}, ""},
		{[]int{900, 900}, ""},
		{[]int{1000}, "Mutation of 1014 bytes is too large for the maximum size of 1000"},
		{[]int{1, 1000}, "Mutation of 1014 bytes is too large for the maximum size of 1000"},
	} {
		var items []BatchItem
		for i, size := range tc.sizes {
			items = append(items, BatchItem{Plan: plan, Values: [][]byte{{byte(i + 1)}, make([]byte, size)}})
		}
		o, sent := &outcome{}, len(w.sent)
		if e.ExecuteItems(context.Background(), 0, items, w.request(), o); len(tc.sizes) == 1 {
			r := w.request()
			r.Values, o = items[0].Values, &outcome{}
			e.Execute(context.Background(), plan, r, o)
		}
		refusal := ""
		if o.Err != nil {
			refusal = o.Err.Error()
		}
		if refusal != tc.refusal || o.completed != 1 || (refusal != "") != (len(w.sent) == sent) {
			t.Errorf("%v: %q, completed %d times", tc.sizes, refusal, o.completed)
		}
	}
}

// TestRowSize checks that a write of too many bytes to one row is rejected, even if MutationBytesMax is 0.
func TestRowSize(t *testing.T) {
	w := invariantFixture(t)
	e := NewExecutor(w, Options{RowBytesMax: 1000})
	plan, err := w.prepare("INSERT INTO kv (k, v1) VALUES (?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{900: "", 1000: "Row of 1014 bytes is too large for the maximum size of 1000"} {
		r, o := w.request(), &outcome{}
		r.Values = [][]byte{{1}, make([]byte, size)}
		e.Execute(context.Background(), plan, r, o)
		if o.Err == nil && want != "" || o.Err != nil && o.Err.Error() != want {
			t.Errorf("%d bytes: %v", size, o.Err)
		}
	}
}

// TestBatchSize checks that BatchBytesMax limits only batches of several partitions. A batch that exceeds a tenth of
// the limit must cause a warning. As in Cassandra, a row has an overhead of 70 bytes. See TestDataSizes.
func TestBatchSize(t *testing.T) {
	w := invariantFixture(t)
	e := NewExecutor(w, Options{BatchBytesMax: 2000})
	plan, err := w.prepare("INSERT INTO kv (k, v1) VALUES (?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		items, bytes  int
		refusal, warn string
	}{
		{1, 2000, "", ""},
		{2, 931, "Batch too large", ""},
		{2, 930, "", "Batch for [ks.kv] is of size 2000, exceeding specified threshold of 200 by 1800."},
		{2, 30, "", ""},
	} {
		items := make([]BatchItem, tc.items)
		for i := range items {
			items[i] = BatchItem{Plan: plan, Values: [][]byte{{byte(i + 1)}, make([]byte, tc.bytes)}}
		}
		o := &outcome{}
		e.ExecuteItems(context.Background(), 0, items, w.request(), o)
		refusal := ""
		if o.Err != nil {
			refusal = o.Err.Error()
		}
		if refusal != tc.refusal || strings.Join(o.Warnings, "\n") != tc.warn {
			t.Errorf("%d items of %d bytes: %q, warnings %q", tc.items, tc.bytes, refusal, o.Warnings)
		}
	}
	r, o := w.request(), &outcome{}
	r.Values = [][]byte{{1}, make([]byte, 2000)}
	if e.Execute(context.Background(), plan, r, o); o.Err != nil {
		t.Fatal(o.Err)
	}
}
