// SPDX-License-Identifier: Apache-2.0

package raftgroup

// promise is this replica's word not to vote, for itself or for others, on which the leases of leaders rest (G6). It is
// given whenever a leader is answered, and to every leader there may have been when the process starts.
type promise struct {
	// until is the tick before which no vote is given.
	until uint64
}

// renew gives the word anew, for an election timeout from now on.
func (p *promise) renew(now uint64, electionTicks int) { p.until = now + uint64(electionTicks) }

// void takes it back, when no lease rests on it any more.
func (p *promise) void() { p.until = 0 }

// binds reports whether no vote may be given now.
func (p *promise) binds(now uint64) bool { return now < p.until }
