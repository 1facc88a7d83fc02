// SPDX-License-Identifier: Apache-2.0

package meta

import "fmt"

// WithRaisedLevel returns the state at the newest feature level that every node supports, or s if the cluster already
// has this level. Only an operator raises the level, because nodes cannot return to the previous version afterward.
func (s *State) WithRaisedLevel() (*State, error) {
	var slowest *Node
	for _, n := range s.Nodes {
		if n.State != Left && (slowest == nil || n.Levels.Newest < slowest.Levels.Newest) {
			slowest = n
		}
	}
	if slowest == nil {
		return nil, fmt.Errorf("the cluster has no nodes")
	}
	for _, n := range s.Nodes {
		if n.State != Left && n.Levels.Oldest > slowest.Levels.Newest {
			return nil, fmt.Errorf("cannot raise feature level: node %x supports levels %s and node %x supports levels %s",
				n.ID[:4], n.Levels, slowest.ID[:4], slowest.Levels)
		}
	}
	m := s.Topology.WithLevel(slowest.Levels.Newest)
	if m == s.Topology {
		return s, nil
	}
	return s.WithTopology(m), nil
}
