// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/fakeclock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an in-memory node without a server. It executes statements and contains partitions and a Keeper.
type fixture struct {
	t           *testing.T
	client      *session.Session
	catalog     *catalog.Catalog
	coordinator *coordinator.Coordinator
	host        *partition.Host
	store       *storage.Store
	installer   schemachange.Installer
	keeper      *view.Keeper
	// refuses reports which mutations of views are rejected.
	refuses atomic.Pointer[func(m *command.Mutation) bool]
	// ahead is the difference between the test clock and the real clock in nanoseconds.
	ahead atomic.Int64

	mu    sync.Mutex
	state *meta.State
}

func (w *fixture) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// oneTable returns the name t for all tables in traces.
type oneTable struct{}

func (oneTable) TableName(uint32) string { return "t" }

// fixtureClock is the clock of a fixture.
type fixtureClock struct{ *fixture }

func (c fixtureClock) Wall() time.Time { return c.now() }

// newFixture returns a fixture with a keyspace ks. If follows is true, the Keeper updates the views after each write.
// Otherwise, only calls of Round and settle update the views.
func newFixture(t *testing.T, follows bool) *fixture {
	t.Helper()
	w := &fixture{t: t, state: meta.Empty()}
	var err error
	if w.store, err = storage.Open(vfs.NewMem(), "data", storage.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	w.host, err = partition.Open(partition.Stored{Store: w.store}, partition.Options{Clock: fixtureClock{w}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.host.Close() })
	w.catalog = catalog.New(schema.New(), func() catalog.NodeInfo { return catalog.NodeInfo{} })
	w.coordinator = coordinator.New(w.host, topology.New(), coordinator.Options{
		Tables: oneTable{}, Cluster: &coordinator.Cluster{Batches: write.NewBatchLog(w.catalog)},
	})
	w.installer = schemachange.Installer{Store: w.store, Replicas: w, Catalog: w.catalog,
		Indexes: new(container.Definitions), Router: w.coordinator, Standalone: &reconcile.Standalone{Host: w.host}}
	w.installer.Begin()
	w.keeper = view.New(view.Options{Coordinator: w, Catalog: w.catalog, Host: w.host,
		Clock: fakeclock.Func(w.now), Log: slog.New(slog.DiscardHandler)})
	if follows {
		w.host.SetViews(w.keeper)
		w.run()
	}
	engine, err := session.New(w.catalog, w.coordinator, ddl.New(w.catalog, w, ddl.Options{}),
		session.Options{Clock: fakeclock.Func(w.now), Release: compat.Cassandra50})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	w.client = engine.NewSession(session.Client{Version: 5, User: "boss"})
	w.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	w.must("USE ks")
	return w
}

// run runs the Keeper until the test ends.
func (w *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.keeper.Run(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// Apply implements ddl.Store with two physical partitions for each table.
func (w *fixture) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.state
	s, events, err := schema.Apply(w.catalog.Snapshot(), c)
	if err != nil || s == w.catalog.Snapshot() {
		return w.catalog.Snapshot(), nil, err
	}
	next := *old
	next.Schema = s
	for ks := range s.All() {
		for _, t := range ks.SortedTables() {
			if t.Virtual || next.Topology.Partitions(t.ID) != nil {
				continue
			}
			if next.Topology, err = next.Topology.AddTable(t.ID, 2, nil); err != nil {
				return nil, nil, err
			}
		}
	}
	w.state = &next
	if err := w.installer.Install(old, &next); err != nil {
		w.t.Error(err)
	}
	return s, events, nil
}

// Create implements schemachange.Installer.
func (w *fixture) Create(old, next *topology.Snapshot) error {
	for p := range next.All() {
		if old.Partition(p.ID) == nil {
			if err := w.host.Create(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove implements schemachange.Installer. It keeps the replicas of dropped tables.
func (w *fixture) Remove(_, _ *topology.Snapshot) error { return nil }

// Write implements Coordinator. As in a non-atomic batch, it writes all mutations that are not rejected.
func (w *fixture) Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions,
	done command.Completion) {
	refuses := w.refuses.Load()
	if refuses == nil {
		w.coordinator.Write(ctx, ms, o, done)
		return
	}
	left := slices.DeleteFunc(slices.Clone(ms), func(m command.Mutation) bool { return (*refuses)(&m) })
	switch {
	case len(left) == len(ms):
		w.coordinator.Write(ctx, ms, o, done)
	case len(left) == 0:
		done.Done(command.Failed(&dberr.Unavailable{}))
	default:
		w.coordinator.Write(ctx, left, o, partly{done})
	}
}

// partly is the completion of a write that was partially rejected.
type partly struct{ done command.Completion }

// Done implements command.Completion.
func (p partly) Done(command.Outcome) { p.done.Done(command.Failed(&dberr.Unavailable{})) }

type ended chan struct{}

// Completed implements session.Completer.
func (e ended) Completed() { close(e) }

func (w *fixture) query(text string) *session.Result {
	c := &session.Call{Request: session.Request{Text: []byte(text), Consistency: dberr.Quorum, Serial: dberr.Serial,
		Version: 5}}
	done := make(ended)
	c.CompleteTo(done)
	status := w.client.Query(context.Background(), c)
	if status == session.Offload {
		c.MayBlock = true
		status = w.client.Query(context.Background(), c)
	}
	if status == session.Pending {
		<-done
	}
	return &c.Result
}

// must executes a statement. If the statement fails, the test fails.
func (w *fixture) must(text string) *session.Result {
	w.t.Helper()
	r := w.query(text)
	if r.Err != nil {
		w.t.Fatalf("%s: %v", text, r.Err)
	}
	return r
}

// rows formats each row of a result. Cells of 4 bytes are printed as numbers.
func rows(r *session.Result, columns int) (out []string) {
	cells := r.Cells
	for range r.RowCount {
		line := make([]string, columns)
		for i := range line {
			n := int32(binary.BigEndian.Uint32(cells))
			switch cells = cells[4:]; n {
			case -1:
				line[i] = "null"
				continue
			case 4:
				line[i] = fmt.Sprint(int32(binary.BigEndian.Uint32(cells)))
			case 8:
				line[i] = fmt.Sprint(int64(binary.BigEndian.Uint64(cells)))
			default:
				line[i] = fmt.Sprintf("%x", cells[:n])
			}
			cells = cells[n:]
		}
		out = append(out, strings.Join(line, " "))
	}
	return out
}

// settle updates the views until no hint is due.
func (w *fixture) settle() {
	w.t.Helper()
	eventually.None(w.t, "nothing is due", time.Minute, func() string {
		w.keeper.Round(context.Background(), 0)
		if due := w.due(); due > 0 {
			return fmt.Sprintf("%d hints are left", due)
		}
		return ""
	})
}

// due returns the number of remaining hints.
func (w *fixture) due() (n int) {
	for _, l := range w.keeper.Lags() {
		n += l.Due
	}
	return n
}

// places returns the number of places of a view.
func (w *fixture) places(name string) (n int) {
	w.t.Helper()
	ks := w.catalog.Snapshot().Keyspaces["ks"]
	base := ks.Tables[ks.Tables[name].View.Base]
	lower := keys.AppendIndexValue(nil, base.Hints(name).ID, keys.HintViewRow)
	err := w.store.Hints(lower, keys.After(slices.Clone(lower)), func([]byte, int64) bool {
		n++
		return true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
