// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestContainersNeedTheirLevel checks that no container is created while some nodes may run a version without
// containers. Tables can be created, and they get change feeds when all nodes support feeds.
func TestContainersNeedTheirLevel(t *testing.T) {
	for level := feature.Oldest; level <= feature.Newest; level++ {
		c, s := Changer{}, meta.Empty().WithTopology(topology.New().WithLevel(level))
		err := c.allowed(s, &schema.CreateContainer{})
		if refused := err != nil && strings.Contains(err.Error(), "ilion upgrade"); refused != (level < 3) {
			t.Errorf("level %d: %v", level, err)
		}
		table := schema.CreateTable{}
		if err := c.allowed(s, &table); err != nil || table.NoFeeds != (level < 5) {
			t.Errorf("a table at level %d: %v, without feeds: %v", level, err, table.NoFeeds)
		}
		alter := schema.AlterTable{}
		if err := c.allowed(s, &alter); err != nil || alter.NoFeeds != (level < 5) ||
			alter.NoDropTimes != (level < 8) {
			t.Errorf("a change of a table at level %d: %v, %+v", level, err, alter)
		}
	}
}

// TestResourcesNeedTheirLevel checks that no user or permission is created while some nodes may run a version that
// would not delete it with its database.
func TestResourcesNeedTheirLevel(t *testing.T) {
	for level := feature.Oldest; level <= feature.Newest; level++ {
		c, s := Changer{}, meta.Empty().WithTopology(topology.New().WithLevel(level))
		err := c.allowsResources(s)
		if refused := err != nil && strings.Contains(err.Error(), "ilion upgrade"); refused != (level < 10) {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

// TestListsNeedTheirLevel checks that no index gets vector lists while some nodes may run a version that does not write
// entries for them.
func TestListsNeedTheirLevel(t *testing.T) {
	ix := &schema.Index{Kind: schema.CustomKind, Lists: schema.Lists{{Generation: 1}}}
	ks := &schema.Keyspace{Tables: map[string]*schema.Table{"t": {Indexes: map[string]*schema.Index{"ix": ix}}}}
	with := &schema.Schema{Keyspaces: map[string]*schema.Keyspace{"k": ks}}
	for level := feature.Oldest; level <= feature.Newest; level++ {
		c, s := Changer{}, meta.Empty().WithTopology(topology.New().WithLevel(level))
		err := c.understood(s, with)
		if refused := err != nil && strings.Contains(err.Error(), "ilion upgrade"); refused != (level < 6) {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

// TestTextIndexesNeedTheirLevel checks that no container has a full-text index while some nodes may run a version that
// removes its entries.
func TestTextIndexesNeedTheirLevel(t *testing.T) {
	with, _, err := schema.Apply(schema.New(), &schema.CreateKeyspace{Name: "k", Properties: []schema.Property{{
		Name: "replication", IsMap: true, Map: []schema.Entry{{Key: "class", Value: "SimpleStrategy"},
			{Key: "replication_factor", Value: "1"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	with, _, err = schema.Apply(with, &schema.CreateContainer{Keyspace: "k", Name: "c", Indexed: true, Texts: true,
		Container: schema.Container{ID: "c", Paths: []string{"/k"}}})
	if err != nil {
		t.Fatal(err)
	}
	for level := feature.Oldest; level <= feature.Newest; level++ {
		c, s := Changer{}, meta.Empty().WithTopology(topology.New().WithLevel(level))
		err := c.understood(s, with)
		if refused := err != nil && strings.Contains(err.Error(), "ilion upgrade"); refused != (level < 10) {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

// TestVectorsNeedTheirLevel checks that no schema has vectors, in columns or in user-defined types, while some nodes
// may run a version that cannot read them.
func TestVectorsNeedTheirLevel(t *testing.T) {
	vector := cqltype.ListOf(cqltype.VectorOf(cqltype.Native(cqltype.Float), 2))
	table := &schema.Table{ByName: map[string]*schema.Column{"v": {Name: "v", Type: vector}}}
	kind := cqltype.UDTOf("k", "u", []string{"v"}, []*cqltype.Type{vector})
	for _, ks := range []*schema.Keyspace{{Tables: map[string]*schema.Table{"t": table}},
		{Types: map[string]*cqltype.Type{"u": kind}}} {
		with := &schema.Schema{Keyspaces: map[string]*schema.Keyspace{"k": ks}}
		for level := feature.Oldest; level <= feature.Newest; level++ {
			c, s := Changer{}, meta.Empty().WithTopology(topology.New().WithLevel(level))
			err := c.understood(s, with)
			if refused := err != nil && strings.Contains(err.Error(), "ilion upgrade"); refused != (level < 4) {
				t.Errorf("level %d: %v", level, err)
			}
			if err := c.understood(s, &schema.Schema{}); err != nil {
				t.Errorf("no vectors at level %d: %v", level, err)
			}
		}
	}
}
