// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"sync"
)

// peerProcess is a process of a node that is connected to this node.
type peerProcess struct {
	incarnation uint64
	conns       int
}

// processes holds the connected processes of other nodes.
type processes struct {
	self   NodeID
	mu     sync.Mutex
	byNode map[NodeID]*peerProcess
}

// enter admits a process unless another process with the same node ID is connected. Two processes of one node, such as
// processes on a data directory and its copy, would violate the promises of the node. A restarted node is admitted
// after the connections of the previous process have ended, at the latest after IdleTimeout. Snapshot connections do
// not count, because they may wait for a disk after the sender has ended.
func (ps *processes) enter(p Peer, c Class) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	here := ps.byNode[p.Node]
	if here != nil && here.incarnation != p.Incarnation {
		return &Refused{Reason: ErrDuplicateNode,
			Text: fmt.Sprintf("node %x is connected to node %x from another process",
				p.Node, ps.self)}
	}
	if c == Snapshot {
		return nil
	}
	if here == nil {
		here = &peerProcess{incarnation: p.Incarnation}
		ps.byNode[p.Node] = here
	}
	here.conns++
	return nil
}

// leave reverts the effect of enter.
func (ps *processes) leave(p Peer, c Class) {
	if c == Snapshot {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if here := ps.byNode[p.Node]; here != nil {
		if here.conns--; here.conns == 0 {
			delete(ps.byNode, p.Node)
		}
	}
}
