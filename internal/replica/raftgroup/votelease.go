// SPDX-License-Identifier: Apache-2.0

package raftgroup

// voteLease is this replica's promise not to vote, for itself or for others, on which the leases of leaders depend
// (RG6). The promise is made whenever the replica responds to a leader. At the start of the process, it is made to any
// leader to which an earlier process may have responded.
type voteLease struct {
	// until is the tick before which the replica gives no vote.
	until uint64
	// exempt is the node to which the promise does not apply (see GroupConfig.PreferredNode).
	exempt NodeID
}

// renew makes the promise for an election timeout from now.
func (p *voteLease) renew(now uint64, electionTicks int) {
	p.until, p.exempt = now+uint64(electionTicks), NodeID{}
}

// release revokes the promise once no lease depends on it.
func (p *voteLease) release() { p.until = 0 }

// binds reports whether the promise currently forbids a vote for the member on a node.
func (p *voteLease) binds(now uint64, candidate NodeID) bool {
	return now < p.until && (candidate == NodeID{} || candidate != p.exempt)
}
