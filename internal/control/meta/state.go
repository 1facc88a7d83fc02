// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// State is one version of all that the cluster knows about itself. Whoever makes the next one copies the struct and
// replaces what is new; what it points to is shared and must not be changed.
type State struct {
	// Version grows with every change, whoever made it.
	Version uint64
	// Schema has what schema.Objects encodes: the tables of system keyspaces are not in it. A next state may have them.
	Schema *schema.Schema
	Map    *topology.Snapshot
	// Nodes are ascending by id.
	Nodes []*Node
	// Building holds the ids of the indexes whose entries are not complete yet, and Builds how far those have come that
	// somebody has begun to build.
	Building map[uint32]bool
	Builds   map[uint32]*Build
	Settings map[string]string
	// Roles are the roles and their permissions.
	Roles *access.State
	// History is the newest splits, merges and moves that have ended, EventsKept at most, in the order of their
	// numbers.
	History []*Event

	// records are those that the state was made of, and what Difference is the difference to; without the partitions of
	// Map, of which only the decoded ones are kept.
	records map[string][]byte
}

// Empty is the state without any record.
func Empty() *State {
	return &State{Schema: schema.New(), Map: topology.New(), Roles: &access.State{}, records: map[string][]byte{}}
}

// Node returns a node by its id, nil if it is not known.
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

// WithNode returns a state in which n is added, or takes the place of the node of its id.
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

// WithoutNode returns a state that does not know the node; s itself if it does not.
func (s *State) WithoutNode(id topology.NodeID) *State {
	i, ok := s.find(id)
	if !ok {
		return s
	}
	next := *s
	next.Nodes = slices.Delete(slices.Clone(s.Nodes), i, i+1)
	return &next
}

// WithMap returns a state with another map.
func (s *State) WithMap(m *topology.Snapshot) *State {
	next := *s
	next.Map = m
	return &next
}

// WithSetting returns a state with a setting; an empty text removes it.
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
