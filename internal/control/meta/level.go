// SPDX-License-Identifier: Apache-2.0

package meta

import "fmt"

// Raised returns the state at the newest feature level that every node understands; s itself if the cluster has it
// already. Nothing but an operator's order raises the level: until then every node can go back to the build before.
func (s *State) Raised() (*State, error) {
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
			return nil, fmt.Errorf("node %x understands feature levels %s and node %x %s: no level is common to both",
				n.ID[:4], n.Levels, slowest.ID[:4], slowest.Levels)
		}
	}
	m := s.Map.WithLevel(slowest.Levels.Newest)
	if m == s.Map {
		return s, nil
	}
	return s.WithMap(m), nil
}
