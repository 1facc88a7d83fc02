// SPDX-License-Identifier: Apache-2.0

package raftgroup

// voteLease is this replica's promise not to vote, on which the leases of leaders depend (RG6). The replica makes the
// promise whenever it responds to a leader. It also makes the promise at the start of the process, because an earlier
// process may have responded to a leader.
type voteLease struct {
	// until is the tick before which the replica gives no vote.
	until uint64
	// exempt is the node to which the promise does not apply (see GroupConfig.PreferredNode).
	exempt NodeID
}

// renew extends the promise to an election timeout from now.
func (p *voteLease) renew(now uint64, electionTicks int) {
	p.until, p.exempt = now+uint64(electionTicks), NodeID{}
}

// release revokes the promise. It must be called only if no lease depends on the promise.
func (p *voteLease) release() { p.until = 0 }

// binds reports whether the promise currently forbids a vote for the member on a node.
func (p *voteLease) binds(now uint64, candidate NodeID) bool {
	return now < p.until && (candidate == NodeID{} || candidate != p.exempt)
}
