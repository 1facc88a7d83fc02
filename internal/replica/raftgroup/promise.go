// SPDX-License-Identifier: Apache-2.0

package raftgroup

// promise is this replica's promise not to vote, for itself or for others, on which the leases of leaders rest (RG6).
// It is given whenever a leader is answered, and at the start of the process to any leader that an earlier process may
// have answered.
type promise struct {
	// until is the tick before which no vote is given.
	until uint64
	// favours is the node that is exempt; see GroupConfig.Favours.
	favours NodeID
}

// renew gives it for an election timeout from now on.
func (p *promise) renew(now uint64, electionTicks int) {
	p.until, p.favours = now+uint64(electionTicks), NodeID{}
}

// void takes it back, once no lease rests on it.
func (p *promise) void() { p.until = 0 }

// binds reports whether no vote may be given now to the member on a node.
func (p *promise) binds(now uint64, candidate NodeID) bool {
	return now < p.until && (candidate == NodeID{} || candidate != p.favours)
}
