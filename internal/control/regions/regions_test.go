// SPDX-License-Identifier: Apache-2.0

package regions

import (
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// cluster returns a cluster of one node in region us, at a feature level.
func cluster(t *testing.T, level feature.Level) *meta.State {
	t.Helper()
	id := topology.NodeID{1}
	m, err := topology.New().WithLevel(level).AddMeta([]topology.Place{{Region: "us", Nodes: []topology.NodeID{id}}})
	if err != nil {
		t.Fatal(err)
	}
	return meta.Empty().WithTopology(m).WithNode(&meta.Node{ID: id, Region: "us"})
}

func must(t *testing.T) func(s *meta.State, err error) *meta.State {
	return func(s *meta.State, err error) *meta.State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestNumbersAreNotReused checks that a region gets a number above all previously assigned numbers (RN1). The test
// includes the removal of a region with the same name and of the region with the highest number.
func TestNumbersAreNotReused(t *testing.T) {
	s := cluster(t, feature.Regions)
	ok := must(t)
	s = ok(add(s, "eu"))
	s = ok(add(s, "ap"))
	s = ok(remove(s, "ap"))
	s = ok(add(s, "sa"))
	s = ok(remove(s, "eu"))
	s = ok(add(s, "eu"))
	list, err := List(s)
	if err != nil {
		t.Fatal(err)
	}
	want := []Region{{Name: "us", Number: 0, Home: true, Nodes: 1}, {Name: "sa", Number: 3}, {Name: "eu", Number: 4}}
	if !slices.Equal(list, want) {
		t.Errorf("%+v, want %+v", list, want)
	}
}

// TestRejections checks the errors of operations that are not possible.
func TestRejections(t *testing.T) {
	ok := must(t)
	s := ok(add(cluster(t, feature.Regions), "eu"))
	inhabited := s.WithNode(&meta.Node{ID: topology.NodeID{2}, Region: "eu"})
	left := s.WithNode(&meta.Node{ID: topology.NodeID{2}, Region: "eu", State: meta.Left})
	added := func(s *meta.State, name string) error { _, err := add(s, name); return err }
	removed := func(s *meta.State, name string) error { _, err := remove(s, name); return err }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"standalone", added(meta.Empty(), "eu"), "this node does not belong to a cluster: start it with --bootstrap " +
			"before you add a region"},
		{"level", added(cluster(t, feature.Regions-1), "eu"), "regions need feature level 9: when all nodes run a " +
			"build that supports it, raise the level with \"ilion upgrade\""},
		{"twice", added(s, "eu"), `region "eu" already exists`},
		{"the home", added(s, "us"), `region "us" already exists`},
		{"empty name", checkName(""), "a region name must have 1 to 48 characters"},
		{"long name", checkName(strings.Repeat("x", 49)), "a region name must have 1 to 48 characters"},
		{"slash", checkName("a/b"), `region name "a/b" contains '/': use letters, digits, '-', '_', and '.'`},
		{"option", checkName("class"), `"class" is the name of a replication option and cannot be a region name`},
		{"unknown", removed(s, "ap"), `region "ap" does not exist. Run "ilion region list" to list the regions`},
		{"replicas", removed(s, "us"), `cannot remove region "us": it holds replicas of 1 partition`},
		{"nodes", removed(inhabited, "eu"), `cannot remove region "eu": it has 1 node. Remove its nodes first (ilion ` +
			`node decommission)`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, c.err, c.want)
		}
	}
	if err := removed(left, "eu"); err != nil {
		t.Errorf("a region whose only node has left: %v", err)
	}
	if _, err := List(meta.Empty()); err == nil {
		t.Error("a standalone node lists regions")
	}
}
