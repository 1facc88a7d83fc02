// SPDX-License-Identifier: Apache-2.0

package raftgroup

// promise is this replica's promise not to vote, for itself or for others, on which the leases of leaders rest (RG6).
// It is given whenever a leader is answered, and at the start of the process to any leader that an earlier process may
// have answered.
type promise struct {
	// until is the tick before which no vote is given.
	until uint64
}

// renew gives it for an election timeout from now on.
func (p *promise) renew(now uint64, electionTicks int) { p.until = now + uint64(electionTicks) }

// void takes it back, once no lease rests on it.
func (p *promise) void() { p.until = 0 }

// binds reports whether no vote may be given now.
func (p *promise) binds(now uint64) bool { return now < p.until }
