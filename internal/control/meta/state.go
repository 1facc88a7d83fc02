// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dbresource"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// State is one version of the cluster metadata. To create the next version, copy the struct and replace fields. Several
// States share the values to which the fields point, so these values must not be changed.
type State struct {
	// Version increases with every change.
	Version uint64
	// Schema holds the objects that schema.Objects encodes. A loaded state does not contain the tables of system
	// keyspaces.
	Schema   *schema.Schema
	Topology *topology.Snapshot
	// Nodes are in ascending order of IDs.
	Nodes []*Node
	// Regions holds the registered regions by name, including removed regions. It is empty until an operator adds a
	// region.
	Regions map[string]*Region
	// Building holds the IDs of incomplete indexes. Builds holds the progress of started builds.
	Building map[uint32]bool
	Builds   map[uint32]*Build
	Settings map[string]string
	// Roles holds the roles and their permissions.
	Roles *access.State
	// Resources holds the users, permissions, and client encryption keys of databases.
	Resources *dbresource.State
	// History holds up to EventsKept completed splits, merges, and moves, in order of their numbers.
	History []*Event

	// records holds the records from which the state was decoded, except the records of partitions. Diff compares the
	// next state with these records.
	records map[string][]byte
}

// Empty returns the state without records.
func Empty() *State {
	return &State{Schema: schema.New(), Topology: topology.New(), Roles: &access.State{},
		Resources: &dbresource.State{}, records: map[string][]byte{}}
}

// Node returns the node with the given ID, or nil if the node does not exist.
func (s *State) Node(id topology.NodeID) *Node {
	if i, ok := s.find(id); ok {
		return s.Nodes[i]
	}
	return nil
}

func (s *State) find(id topology.NodeID) (int, bool) {
	return slices.BinarySearchFunc(s.Nodes, id, func(n *Node, id topology.NodeID) int {
		return bytes.Compare(n.ID[:], id[:])
	})
}

// WithNode returns a state that contains n. It replaces an existing node with the same ID.
func (s *State) WithNode(n *Node) *State {
	next := *s
	next.Nodes = slices.Clone(s.Nodes)
	if i, ok := s.find(n.ID); ok {
		next.Nodes[i] = n
	} else {
		next.Nodes = slices.Insert(next.Nodes, i, n)
	}
	return &next
}

// WithTopology returns a state with another topology.
func (s *State) WithTopology(m *topology.Snapshot) *State {
	next := *s
	next.Topology = m
	return &next
}

// WithSetting returns a state with a setting. An empty text removes the setting.
func (s *State) WithSetting(name, text string) *State {
	next := *s
	next.Settings = with(s.Settings, name, text, text != "")
	return &next
}

// WithRoles returns a state with other roles.
func (s *State) WithRoles(roles *access.State) *State {
	next := *s
	next.Roles = roles
	return &next
}

// WithResources returns a state with other resources of databases.
func (s *State) WithResources(r *dbresource.State) *State {
	next := *s
	next.Resources = r
	return &next
}

func with[K comparable, V any](m map[K]V, key K, value V, there bool) map[K]V {
	out := maps.Clone(m)
	if out == nil {
		out = map[K]V{}
	}
	if there {
		out[key] = value
	} else {
		delete(out, key)
	}
	return out
}
