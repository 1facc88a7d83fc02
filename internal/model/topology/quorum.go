// SPDX-License-Identifier: Apache-2.0

package topology

// Quorum is how many of some voters have to agree: more than half, so that any two quorums share one.
func Quorum(voters int) int { return voters/2 + 1 }

// Votes reports whether a replica in this state may vote: one that is leaving does until it is gone.
func (s MemberState) Votes() bool { return s == Voter || s == Leaving }

// Voters is how many of a set's replicas may vote.
func (s *ReplicaSet) Voters() int {
	n := 0
	for i := range s.Replicas {
		if s.Replicas[i].State.Votes() {
			n++
		}
	}
	return n
}
