// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/vector"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// TestFirstChange checks that clients receive an event for the first change of a cluster's schema, but no events for
// the system keyspaces that are recorded with it.
func TestFirstChange(t *testing.T) {
	empty := schema.New()
	next, _, err := schema.Apply(catalog.WithSystem(empty),
		&schema.CreateKeyspace{Name: "ks", Properties: []schema.Property{
			{
				Name:  "replication",
				IsMap: true,
				Map:   []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}},
			},
		}})
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Event{{Change: schema.Created, Target: schema.TargetKeyspace, Keyspace: "ks"}}
	installer := Installer{Catalog: catalog.New(empty, nil)}
	if got := installer.events(empty, next); !slices.Equal(got, want) {
		t.Errorf("clients receive %v", got)
	}
}

// recorder records the order of an Installer's steps.
type recorder struct {
	*storage.Store
	steps []string
}

func (r *recorder) note(format string, args ...any) {
	r.steps = append(r.steps, fmt.Sprintf(format, args...))
}

func (r *recorder) InstallTable(t storage.Table) {
	r.note("install table, %d indexes", len(t.Indexes))
	r.Store.InstallTable(t)
}

func (r *recorder) ForgetTable(id uint32) {
	r.note("forget table")
	r.Store.ForgetTable(id)
}

func (r *recorder) DropIndex(id uint32) error {
	r.note("drop index")
	return r.Store.DropIndex(id)
}

func (r *recorder) Create(_, _ *topology.Snapshot) error {
	r.note("make replicas")
	return nil
}

func (r *recorder) Remove(_, _ *topology.Snapshot) error {
	r.note("remove replicas")
	return nil
}

func (r *recorder) SetTopology(*topology.Snapshot)           { r.note("route") }
func (r *recorder) Require(topology.PartitionID, uint64)     { r.note("require") }
func (*recorder) WithSystem(s *schema.Schema) *schema.Schema { return s }
func (r *recorder) Publish(_ *schema.Schema, es ...schema.Event) {
	r.note("publish %d events", len(es))
}

// TestOrderOfSteps checks SC1 to SC3. Replicas are created before statements can name the table. Mutations of an older
// revision are rejected before statements are planned for the new revision. Dropped tables are removed when no
// statement can name them. A single step from the first to the last state, as after a restart, must work too.
func TestOrderOfSteps(t *testing.T) {
	store, err := storage.Open(vfs.NewMem(), "data", storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r := &recorder{Store: store}
	i := &Installer{Store: r, Replicas: r, Catalog: r, Indexes: new(container.Definitions), Router: r, Standalone: r}
	column := &schema.Column{Name: "v", ID: 2, Kind: schema.Regular}
	table := func(revision uint64, indexes map[string]*schema.Index) *meta.State {
		tab := &schema.Table{
			Keyspace: "ks",
			Name:     "t",
			ID:       600,
			Revision: revision,
			Indexes:  indexes,
			ByName:   map[string]*schema.Column{"v": column},
		}
		s := meta.Empty()
		s.Schema = schema.New().With(&schema.Keyspace{Name: "ks", Tables: map[string]*schema.Table{"t": tab}})
		m, err := topology.New().CutTable(600,
			topology.Equal(1, []topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}}}}))
		if err != nil {
			t.Fatal(err)
		}
		return s.WithTopology(m)
	}
	none, plain := meta.Empty(), table(1, nil)
	indexed := table(2, map[string]*schema.Index{"i": {Name: "i", ID: 601, Column: "v"}})
	for _, c := range []struct {
		name      string
		old, next *meta.State
		want      string
	}{
		{"create table", none, plain,
			"install table, 0 indexes; make replicas; route; publish 2 events; remove replicas"},
		{"create index", plain, indexed,
			"install table, 1 indexes; make replicas; route; require; publish 1 events; remove replicas"},
		{"drop keyspace", indexed, none,
			"make replicas; route; publish 2 events; remove replicas; forget table; drop index"},
		{"restart", none, indexed, "install table, 1 indexes; make replicas; route; publish 2 events; remove replicas"},
		{"nothing", plain, plain, "make replicas; route; remove replicas"},
	} {
		r.steps = nil
		if err := i.Install(c.old, c.next); err != nil {
			t.Error(err)
		}
		if got := strings.Join(r.steps, "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestLaggingSchemaKeepsNewEntries checks that a node whose schema lags behind its log keeps the entries of lists that
// it does not know yet, and removes other entries.
func TestLaggingSchemaKeepsNewEntries(t *testing.T) {
	lists := func(generation uint32) *vector.Lists {
		l := vector.NewLists(vector.Euclidean, 2)
		l.Generation = generation
		return l
	}
	c := &schema.Column{Name: "v", ID: 7, Kind: schema.Regular,
		Type: cqltype.VectorOf(cqltype.Native(cqltype.Float), 2)}
	ix := &schema.Index{Column: "v", Kind: schema.CustomKind, Lists: schema.Lists{lists(2)}}
	known := vectorIndex(ix, c)
	v := []float32{1, 2}
	r := &row.Row{Cells: []row.Cell{{Column: 7, Value: vector.AppendVector(nil, v)}}}
	for generation, want := range map[uint32]bool{1: false, 2: true, 3: true} {
		if got := known.Holds(r, lists(generation).AppendEntry(nil, v, 9)); got != want {
			t.Errorf("entry of generation %d: kept %v", generation, got)
		}
	}
	if known.Holds(r, lists(2).AppendEntry(nil, []float32{5, 6}, 9)) {
		t.Error("an entry of another vector is kept")
	}
}
