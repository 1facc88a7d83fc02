// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// fixture is an engine on an in-memory store, without a server.
type fixture struct {
	*Engine
	catalog *catalog.Catalog
	client  *Session
}

// schemaStore applies schema changes in memory.
type schemaStore struct {
	mu          sync.Mutex
	host        *partition.Host
	coordinator *coordinator.Coordinator
	catalog     *catalog.Catalog
	store       *storage.Store
}

// Apply creates the physical partitions of new tables and publishes the schema.
func (k *schemaStore) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.catalog.Snapshot()
	next, events, err := schema.Apply(old, c)
	if err != nil || next == old {
		return old, nil, err
	}
	if err := k.reshape(next); err != nil {
		return nil, nil, err
	}
	k.catalog.Publish(next, events...)
	return next, events, nil
}

// oneTable returns the name t for all tables in traces.
type oneTable struct{}

func (oneTable) TableName(uint32) string { return "t" }

func (k *schemaStore) reshape(s *schema.Schema) (err error) {
	topo := k.coordinator.Topology()
	for ks := range s.All() {
		for _, t := range ks.Tables {
			if t.Virtual {
				continue
			}
			k.store.InstallTable(storage.Table{ID: t.ID, Clustering: len(t.Clustering),
				GCGrace: int64(t.Options.GCGrace), Dropped: t.Hidden()})
			if topo.Partitions(t.ID) == nil {
				if topo, err = topo.AddTable(t.ID, 2, nil); err != nil {
					return err
				}
				if err = k.host.Create(topo.Partitions(t.ID)...); err != nil {
					return err
				}
			}
			for _, p := range topo.Partitions(t.ID) {
				if err = k.host.Replica(p.ID).Require(context.Background(), partition.ExtentOf(p),
					t.Revision); err != nil {
					return err
				}
			}
		}
	}
	k.coordinator.SetTopology(topo)
	return nil
}

func newFixture(t testing.TB, o Options) *fixture {
	t.Helper()
	return newFixtureWith(t, o, func() catalog.NodeInfo { return catalog.NodeInfo{} })
}

// newFixtureWith returns a fixture. info returns the node information.
func newFixtureWith(t testing.TB, o Options, info func() catalog.NodeInfo) *fixture {
	t.Helper()
	w := &fixture{}
	store, err := storage.Open(vfs.NewMem(), "data", storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	host, err := partition.Open(partition.Stored{Store: store}, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	w.catalog = catalog.New(schema.New(), info)
	co := coordinator.New(host, topology.New(), coordinator.Options{
		Tables: oneTable{}, Cluster: &coordinator.Cluster{Batches: write.NewBatchLog(w.catalog)},
	})
	k := &schemaStore{host: host, coordinator: co, catalog: w.catalog, store: store}
	if err := k.reshape(w.catalog.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if w.Engine, err = New(w.catalog, co, ddl.New(w.catalog, k, ddl.Options{}), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.client = w.NewSession(Client{Version: 4, User: "boss"})
	w.query(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	return w
}

// run executes a request. The default consistency level is ONE.
func (w *fixture) run(s *Session, method func(*Session, context.Context, *Call) Status, r Request) *Result {
	if r.Consistency == dberr.Any {
		r.Consistency = dberr.One
	}
	return w.call(s, method, r)
}

// call executes a request inline. If the session returns Offload, call executes the request again with MayBlock.
func (w *fixture) call(s *Session, method func(*Session, context.Context, *Call) Status, r Request) *Result {
	c := &Call{Request: r}
	if c.Request.Version == 0 {
		c.Request.Version = 4
	}
	c.Request.Serial = dberr.Serial
	done := make(completionChannel, 1)
	c.CompleteTo(done)
	status := method(s, context.Background(), c)
	if status == Offload {
		c.MayBlock = true
		status = method(s, context.Background(), c)
	}
	if status == Pending {
		<-done
	}
	return &c.Result
}

func (w *fixture) query(t testing.TB, text string) *Result {
	t.Helper()
	r := w.run(w.client, (*Session).Query, Request{Text: []byte(text)})
	if r.Err != nil {
		t.Fatalf("%s: %v", text, r.Err)
	}
	return r
}

func (w *fixture) try(text string) error {
	return w.run(w.client, (*Session).Query, Request{Text: []byte(text)}).Err
}

func (w *fixture) prepared(t testing.TB, s *Session, text string) *Prepared {
	t.Helper()
	r := w.run(s, (*Session).Prepare, Request{Text: []byte(text)})
	if r.Err != nil {
		t.Fatalf("prepare %s: %v", text, r.Err)
	}
	return r.Prepared
}

// cells splits the cells of a result.
func cells(r *Result) (out []string) {
	rest := r.Cells
	for len(rest) >= 4 {
		n := int32(uint32(rest[0])<<24 | uint32(rest[1])<<16 | uint32(rest[2])<<8 | uint32(rest[3]))
		if rest = rest[4:]; n < 0 {
			out = append(out, "null")
			continue
		}
		out = append(out, string(rest[:n]))
		rest = rest[n:]
	}
	return out
}

// writeOptions holds the options for writes that a test sends directly to the coordinator.
var writeOptions = coordinator.WriteOptions{Level: dberr.Quorum}

// completion delivers the result of a write on a channel.
type completion chan error

// Done implements command.Completion.
func (c completion) Done(o command.Outcome) { c <- o.Err }

func i32(n int32) []byte { return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }
