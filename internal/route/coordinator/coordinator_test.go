// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const table = keys.FirstTable

// testingT holds the common methods of *testing.T, *testing.B, and *rapid.T.
type testingT interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Error(...any)
}

// fixture is a node with an in-memory store, a host, and a coordinator.
type fixture struct {
	*Coordinator
	store *storage.Store
	host  *partition.Host
}

func newFixture(t testingT, s *topology.Snapshot, o Options, ho partition.Options) *fixture {
	store, err := storage.Open(vfs.NewMem(), "data", storage.Options{MemtableBytes: 4 << 20, CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	store.InstallTable(storage.Table{ID: table, Clustering: 1})
	store.InstallTable(storage.Table{ID: batchTable})
	if o.Cluster == nil {
		o.Cluster = &Cluster{Node: node(1), Batches: new(fleet).batches()}
	}
	host, err := partition.Open(partition.Stored{Store: store}, ho)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Create(append(slices.Clone(s.Partitions(table)), s.Partitions(batchTable)...)...); err != nil {
		t.Fatal(err)
	}
	return &fixture{New(host, s, o), store, host}
}

// close closes the coordinator before the host, because the coordinator may still have to remove batch log entries.
func (w *fixture) close(t testingT) {
	w.Close()
	if err := errors.Join(w.host.Close(), w.store.Close()); err != nil {
		t.Error(err)
	}
}

func tableOf(t testingT, n int) *topology.Snapshot {
	here := []topology.Place{{Region: "here", Nodes: []topology.NodeID{node(1)}}}
	s, err := topology.New().AddTable(table, n, here)
	if err == nil {
		s, err = s.AddTable(batchTable, 1, here)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put writes column 1 of the row (key, clustering).
func put(key, clustering string, v int64) command.Mutation {
	var b row.Builder
	b.Reset(row.Unstamped)
	b.Cell(1, nil, binary.BigEndian.AppendUint64(nil, uint64(v)), 0, row.NoExpiry)
	k := []byte(key)
	return command.Mutation{
		Table: table,
		Token: token.Hash(k),
		Key:   k,
		Ops:   []command.Op{{Clustering: []byte(clustering), Operand: b.Append(nil)}},
	}
}

// add increments column 1 as a counter.
func add(key, clustering string, delta int64) *command.Conditional {
	k := []byte(key)
	return &command.Conditional{
		Mutation: command.Mutation{Table: table, Token: token.Hash(k), Key: k},
		Rows:     []command.RowRef{{Clustering: []byte(clustering)}},
		Updates: []command.Update{{
			Kind: command.CounterAdd, Column: 1, Type: &cqltype.Type{Kind: cqltype.Bigint},
			Args: [][]byte{binary.BigEndian.AppendUint64(nil, uint64(delta))}, Timestamp: row.Unstamped,
		}},
	}
}

type result chan error

func (r result) Done(o command.Outcome) { r <- o.Err }

func (w *fixture) write(ms []command.Mutation, o WriteOptions) error {
	done := make(result, 1)
	w.Write(context.Background(), ms, o, done)
	return <-done
}

// log is a visitor that records its calls. The step function determines the results of the calls.
type log struct {
	lines []string
	step  func(n int) command.Step
}

func (l *log) note(line string) (command.Step, error) {
	l.lines = append(l.lines, line)
	if l.step == nil {
		return command.More, nil
	}
	return l.step(len(l.lines)), nil
}

func (l *log) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	return l.note(fmt.Sprintf("partition %s %v", key, static != nil))
}

func (l *log) Row(clustering []byte, r *row.Row) (command.Step, error) {
	return l.note(fmt.Sprintf("row %s = %d", clustering, binary.BigEndian.Uint64(r.Cells[0].Value)))
}

func (w *fixture) read(t testingT, q command.Read, step func(int) command.Step) []string {
	for {
		l := &log{step: step}
		err := w.Read(context.Background(), &q, l)
		if err == nil {
			return l.lines
		}
		if !errors.Is(err, ErrRepeat) {
			t.Fatal(err)
		}
	}
}

// flaky is a replica that becomes unavailable during reads. The frequency of the failures decreases.
type flaky struct {
	Local
	after int
	reads *int
}

func (f flaky) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if *f.reads++; *f.reads&(*f.reads-1) != 0 {
		return f.Local.Read(ctx, q, v)
	}
	return f.Local.Read(ctx, q, &cutting{Visitor: v, left: f.after})
}

// cutting is a visitor that accepts left calls and then fails.
type cutting struct {
	command.Visitor
	left int
}

func (c *cutting) cut() bool { c.left--; return c.left < 0 }

func (c *cutting) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if c.cut() {
		return command.Stop, partition.ErrClosed
	}
	return c.Visitor.Partition(t, key, static)
}

func (c *cutting) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if c.cut() {
		return command.Stop, partition.ErrClosed
	}
	return c.Visitor.Row(clustering, r)
}

// stopper is a visitor that stops after a read has passed many keys. It records the last position.
type stopper struct {
	log
	tok token.Token
	key []byte
}

func (s *stopper) Passed(tok token.Token, key []byte, _ int) (command.Step, error) {
	s.tok, s.key = tok, bytes.Clone(key)
	return command.Stop, nil
}

// TestReadStopsOverNothing checks a read of thousands of deleted keys in several partitions. The visitor must be able
// to stop the read at any position. Another command must be able to resume the read at this position.
func TestReadStopsOverNothing(t *testing.T) {
	w := newFixture(t, tableOf(t, 3), Options{}, partition.Options{})
	defer w.close(t)
	for i := range 12_000 {
		m := put(fmt.Sprint("k", i), "c", 1)
		if i > 0 {
			var b row.Builder
			b.Reset(row.Unstamped)
			b.DeleteRow(row.Unstamped)
			m.Ops[0].Operand = b.Append(nil)
		}
		if err := w.write([]command.Mutation{m}, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	q := command.Read{Table: table, Range: token.Full, Level: dberr.Quorum}
	var found []string
	stops := 0
	for {
		var s stopper
		if err := w.Read(t.Context(), &q, &s); err != nil {
			t.Fatal(err)
		}
		if found = append(found, s.lines...); s.key == nil {
			break
		}
		stops++
		q.AfterToken, q.AfterKey, q.AfterPartition = s.tok, s.key, true
	}
	if want := []string{"partition k0 false", "row c = 1"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if stops < 6 {
		t.Errorf("%d stops", stops)
	}
}

// TestManyPartitionsAreOne checks that a table with 16 partitions returns the same results as a table with one
// partition. Some partition boundaries are between keys with the same token. Replicas may leave during a read.
func TestManyPartitionsAreOne(t *testing.T) {
	var all [][]byte
	for k := range 12 {
		all = append(all, fmt.Appendf(nil, "key%d", k))
	}
	rapid.Check(t, func(t *rapid.T) {
		many := tableOf(t, 16)
		for range rapid.IntRange(0, 4).Draw(t, "splits") {
			at := rapid.SampledFrom(all).Draw(t, "split at")
			p := many.Locate(table, token.Hash(at), at)
			if next, err := split(many, p.ID, topology.At(token.Hash(at), at)); err == nil {
				many = next
			}
		}
		one, cut := newFixture(t, tableOf(t, 1), Options{}, partition.Options{}),
			newFixture(t, many, Options{}, partition.Options{})
		defer one.close(t)
		defer cut.close(t)
		for i := range rapid.IntRange(1, 40).Draw(t, "rows") {
			key := string(rapid.SampledFrom(all).Draw(t, "key"))
			m := put(key, fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "clustering")), int64(i))
			if rapid.IntRange(0, 4).Draw(t, "static") == 0 {
				m.Ops[0].Kind, m.Ops[0].Clustering = command.OpHeader, nil
			}
			row.Stamp(m.Ops[0].Operand, int64(i+1))
			for _, w := range []*fixture{one, cut} {
				if err := w.write([]command.Mutation{m}, WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		reads, after := 0, rapid.IntRange(0, 6).Draw(t, "cut after")
		for range 8 {
			q := drawRead(t, all)
			// Like LIMIT and PER PARTITION LIMIT, the steps depend on the number of rows.
			stop, next := rapid.IntRange(1, 40).Draw(t, "stop"), rapid.IntRange(2, 9).Draw(t, "next")
			step := func(n int) command.Step {
				switch {
				case n == stop:
					return command.Stop
				case n%next == 0:
					return command.NextPartition
				}
				return command.More
			}
			want := one.read(t, q, step)
			here := cut.cluster.local
			if diff := cmp.Diff(want, cut.read(t, q, step)); diff != "" {
				t.Fatalf("%+v: %s", q, diff)
			}
			if q.Key == nil {
				cut.cluster.local = localReplicas(func(id topology.PartitionID) Local {
					return flaky{here.Replica(id), after, &reads}
				})
				if diff := cmp.Diff(want, cut.read(t, q, step)); diff != "" {
					t.Fatalf("interrupted, %+v: %s", q, diff)
				}
				cut.cluster.local = here
			}
		}
	})
}

// drawRead draws a read of a key or a range from a random start position.
func drawRead(t *rapid.T, all [][]byte) command.Read {
	q := command.Read{Table: table, Now: 1, Statics: rapid.Bool().Draw(t, "statics"),
		Reversed: rapid.Bool().Draw(t, "reversed")}
	pick := func(label string) []byte { return rapid.SampledFrom(all).Draw(t, label) }
	if rapid.Bool().Draw(t, "slice") {
		q.Slices = []command.Slice{{Start: []byte("1"), End: []byte("4")}}
	}
	if rapid.IntRange(0, 3).Draw(t, "point") == 0 {
		q.Key = pick("of")
		q.Token = token.Hash(q.Key)
		return q
	}
	if rapid.Bool().Draw(t, "narrow") {
		a, b := token.Hash(pick("from")), token.Hash(pick("to"))
		q.Range = token.Between(min(a, b), max(a, b))
	}
	if rapid.Bool().Draw(t, "resume") {
		q.AfterKey = pick("after")
		q.AfterToken = token.Hash(q.AfterKey)
		if q.AfterPartition = rapid.Bool().Draw(t, "whole"); !q.AfterPartition {
			q.AfterClustering = fmt.Append(nil, rapid.IntRange(0, 5).Draw(t, "row"))
		}
	}
	return q
}

// TestTraceAndTouched checks that a request for one partition key accesses one physical partition and that the trace
// contains this partition. A scan must access all partitions.
func TestTraceAndTouched(t *testing.T) {
	w := newFixture(t, tableOf(t, 16), Options{Tables: tableNames{}}, partition.Options{})
	defer w.close(t)
	if err := w.write([]command.Mutation{put("k", "c", 1)}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	events := func(q command.Read) []string {
		tr := trace.New([16]byte{1}, time.Now())
		if err := w.Read(trace.With(t.Context(), tr), &q, &log{}); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range tr.Events() {
			out = append(out, e.Activity)
		}
		return out
	}
	k := []byte("k")
	id := w.Topology().Locate(table, token.Hash(k), k).ID
	want := []string{fmt.Sprintf("Reading from physical partition %d of table ks.t", id),
		fmt.Sprintf("Charged 1 RU at physical partition %d", id)}
	if diff := cmp.Diff(want, events(command.Read{Table: table, Key: k, Token: token.Hash(k)})); diff != "" {
		t.Error(diff)
	}
	scan := events(command.Read{Table: table})
	if len(scan) != 33 || !strings.HasPrefix(scan[0], "Reading from physical partition 1 ") ||
		scan[1] != "Charged 2.5 RU at physical partition 1" ||
		scan[32] != "Read from 16 physical partitions of table ks.t" {
		t.Errorf("a scan: %q", scan)
	}
	if s := w.Stats(); s.Touched != 1+1+16 || s.Reads != 2 || s.Writes != 1 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// TestOldMap checks that a request with an old topology waits for the new topology and succeeds. If no new topology
// arrives, the request must time out without effect.
func TestOldMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := tableOf(t, 1)
		now, err := split(old, 1, topology.Position{Ring: 1 << 63})
		if err != nil {
			t.Fatal(err)
		}
		w := newFixture(t, now, Options{}, partition.Options{})
		defer w.close(t)
		w.Coordinator = New(w.host, old, Options{Cluster: &Cluster{Node: node(1), Batches: new(fleet).batches()}})
		key := "k" // the key is in a range that the old topology assigns to another partition
		for i := 0; now.Locate(table, token.Hash([]byte(key)), []byte(key)).ID == 1; i++ {
			key = fmt.Sprint("k", i)
		}
		k := []byte(key)
		begin := time.Now()
		var timeout *dberr.WriteTimeout
		if err := w.write([]command.Mutation{put(key, "c", 1)}, WriteOptions{Level: dberr.Quorum}); !errors.As(err,
			&timeout) || timeout.WriteType != "SIMPLE" ||
			timeout.Level != dberr.Quorum ||
			time.Since(begin) != 2*time.Second {
			t.Fatalf("a write with an old topology: %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		var readTimeout *dberr.ReadTimeout
		if err := w.Read(t.Context(), &command.Read{Table: table, Key: k, Token: token.Hash(k)},
			&log{}); !errors.As(err, &readTimeout) ||
			time.Since(begin) != 5*time.Second {
			t.Fatalf("a read with an old topology: %v after %v", err, time.Since(begin))
		}
		errs := make(chan error, 5)
		done, decided := make(result, 2), make(result, 1)
		other := put(key, "e", 3)
		go w.Write(t.Context(), []command.Mutation{put(key, "c", 1)}, WriteOptions{}, done)
		go w.Write(t.Context(), []command.Mutation{put("k", "d", 2), other}, WriteOptions{Atomic: true, Type: "BATCH"},
			done)
		go w.ConditionalWrite(t.Context(), add(key, "n", 1), WriteOptions{Type: "COUNTER"}, decided)
		go func() { errs <- w.Read(t.Context(), &command.Read{Table: table}, &log{}) }()
		time.Sleep(time.Second)
		w.SetTopology(now)
		w.SetTopology(old) // no effect, because the current topology is newer
		for _, err := range []error{<-done, <-done, <-decided, <-errs} {
			if err != nil {
				t.Errorf("after the new topology: %v", err)
			}
		}
		if w.Stats().Retries == 0 || w.Topology() != now {
			t.Error("no request was retried")
		}
		var invalid *dberr.Invalid
		m := put("k", "c", 1)
		m.Table++
		if err := w.write([]command.Mutation{m}, WriteOptions{}); !errors.As(err, &invalid) {
			t.Errorf("a missing table: %v", err)
		}
	})
}

// TestAdmission checks that requests above the limit are rejected, and that each request releases its slot when it
// ends.
func TestAdmission(t *testing.T) {
	w := newFixture(t, tableOf(t, 2), Options{RequestsMax: 1}, partition.Options{})
	defer w.close(t)
	if err := w.write([]command.Mutation{put("k", "c", 1)}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var over *dberr.Overloaded
	inside := visitorFunc(func() error {
		done, decided := make(result, 1), make(result, 1)
		w.Write(t.Context(), []command.Mutation{put("k", "c", 2)}, WriteOptions{}, done)
		w.ConditionalWrite(t.Context(), add("k", "n", 1), WriteOptions{}, decided)
		for _, err := range []error{<-done, <-decided, w.Truncate(t.Context(), table),
			w.Read(t.Context(), &command.Read{Table: table}, &log{})} {
			if !errors.As(err, &over) {
				return fmt.Errorf("a second request: %w", err)
			}
		}
		return nil
	})
	if err := w.Read(t.Context(), &command.Read{Table: table}, inside); err != nil {
		t.Fatal(err)
	}
	if err := w.write([]command.Mutation{put("k", "c", 2)}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Overloaded != 4 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// visitorFunc is a visitor that is called for every partition.
type visitorFunc func() error

func (f visitorFunc) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, f()
}
func (f visitorFunc) Row([]byte, *row.Row) (command.Step, error) { return command.More, nil }

// TestVisitorError checks that Read returns visitor errors unchanged.
func TestVisitorError(t *testing.T) {
	w := newFixture(t, tableOf(t, 4), Options{}, partition.Options{})
	defer w.close(t)
	if err := w.write([]command.Mutation{put("k", "c", 1)}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := dberr.Invalidf("too much")
	if err := w.Read(t.Context(), &command.Read{Table: table}, visitorFunc(func() error { return want })); err != want {
		t.Fatalf("got %v", err)
	}
}

// TestWritesOverPartitions checks concurrent batches, counter updates, and truncation on 16 partitions.
func TestWritesOverPartitions(t *testing.T) {
	for _, mode := range []partition.Durability{partition.Periodic, partition.Synced} {
		w := newFixture(t, tableOf(t, 16), Options{}, partition.Options{Durability: mode})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 10 {
					var ms []command.Mutation
					for k := range 20 {
						ms = append(ms, put(fmt.Sprint("k", k), "c", int64(g*100+i)))
					}
					if err := w.write(ms, WriteOptions{Atomic: g%2 == 0, Type: "BATCH"}); err != nil {
						t.Error(err)
					}
					decided := make(result, 1)
					w.ConditionalWrite(t.Context(), add(fmt.Sprint("k", i), "n", 1), WriteOptions{Type: "COUNTER"},
						decided)
					if err := <-decided; err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		counters := 0
		for _, line := range w.read(t, command.Read{Table: table, Now: 1}, nil) {
			if line == "row n = 8" {
				counters++
			}
		}
		if counters != 10 {
			t.Errorf("mode %d: %d of 10 counters are 8", mode, counters)
		}
		if err := w.Truncate(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		if lines := w.read(t, command.Read{Table: table, Now: 1}, nil); len(lines) > 0 {
			t.Errorf("after a truncate: %q", lines)
		}
		w.close(t)
	}
}

// TestFailures checks that the client receives a write error of the store as a failure of the correct type. The failure
// must contain the reason.
func TestFailures(t *testing.T) {
	e := &routedRequest{level: dberr.One}
	for _, tc := range []struct {
		err  error
		want error
	}{
		{nil, nil},
		{
			fmt.Errorf("%w: input/output error", partition.ErrStopped),
			&dberr.WriteFailure{Level: dberr.One, BlockFor: 1, Failures: 1, WriteType: "BATCH",
				Message: "store stopped after a disk error: input/output error"},
		},
		{&partition.LatchTimeout{Cause: context.DeadlineExceeded}, &dberr.WriteTimeout{Level: dberr.One, BlockFor: 1,
			WriteType: "BATCH"}},
		{errNoReplica, &dberr.Unavailable{Level: dberr.One, Required: 1}},
		{&dberr.Overloaded{Message: "x"}, &dberr.Overloaded{Message: "x"}},
		{ErrStaleSchema, ErrStaleSchema},
	} {
		if diff := cmp.Diff(fmt.Sprintf("%#v", tc.want),
			fmt.Sprintf("%#v", e.writeError(tc.err, "BATCH"))); diff != "" &&
			tc.want != ErrStaleSchema {
			t.Errorf("%v: %s", tc.err, diff)
		}
	}
	if err := e.readError(storage.ErrCorrupt, true); err.Error() != storage.ErrCorrupt.Error() {
		t.Errorf("read: %v", err)
	}
}

type nothing struct{}

func (nothing) Done(command.Outcome) {}

type blind struct{}

func (blind) Partition(token.Token, []byte, *row.Row) (command.Step, error) { return command.More, nil }

func (blind) Row([]byte, *row.Row) (command.Step, error) { return command.More, nil }

// doneChan is a completion that a test can wait for.
type doneChan chan error

func (d doneChan) Done(o command.Outcome) { d <- o.Err }

// TestAllocations checks that the coordinator and the replica do not allocate memory for a write or a read of one key.
// Only the store may allocate memory.
func TestAllocations(t *testing.T) {
	if raceEnabled || invariant.Enabled {
		t.Skip("pools forget under the race detector, and checks allocate")
	}
	w := newFixture(t, tableOf(t, 16), Options{}, partition.Options{})
	defer w.close(t)
	ms := []command.Mutation{put("k", "c", 1)}
	var v blind
	q := command.Read{Table: table, Key: []byte("other"), Token: token.Hash([]byte("other")), Now: 1}
	ctx := t.Context()
	if err := w.write([]command.Mutation{put("other", "c", 1)}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	done := make(doneChan, 1)
	if n := testing.AllocsPerRun(1000, func() { w.Write(ctx, ms, WriteOptions{}, done); <-done }); n > 0 {
		t.Errorf("a write allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := w.Read(ctx, &q, v); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a read allocates %v times", n)
	}
}

// BenchmarkWrite and BenchmarkRead measure the CPU time of requests in the coordinator, the replica, and the in-memory
// store.
func BenchmarkWrite(b *testing.B) {
	w := newFixture(b, tableOf(b, 16), Options{}, partition.Options{})
	defer w.close(b)
	ms := []command.Mutation{put("k", "c", 1)}
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		ms[0].Key = binary.BigEndian.AppendUint64(ms[0].Key[:0], n)
		row.Stamp(ms[0].Ops[0].Operand, int64(n))
		ms[0].Token = token.Hash(ms[0].Key)
		w.Write(b.Context(), ms, WriteOptions{}, nothing{})
	}
}

func BenchmarkRead(b *testing.B) {
	w := newFixture(b, tableOf(b, 16), Options{}, partition.Options{})
	defer w.close(b)
	ms := []command.Mutation{put("k", "c", 1)}
	w.Write(b.Context(), ms, WriteOptions{}, nothing{})
	q := command.Read{Table: table, Key: ms[0].Key, Token: ms[0].Token, Now: 1}
	var v blind
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Read(b.Context(), &q, v); err != nil {
			b.Fatal(err)
		}
	}
}

// split splits a partition, like the split entry in a partition's log.
func split(s *topology.Snapshot, id topology.PartitionID, at topology.Position) (*topology.Snapshot, error) {
	s, err := s.BeginSplit(id, at, topology.ByOperator, time.UnixMilli(1e12))
	if err != nil {
		return nil, err
	}
	return s.EndSplit(id, time.Time{})
}
