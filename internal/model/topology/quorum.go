// SPDX-License-Identifier: Apache-2.0

package topology

// Quorum returns the number of voters that must agree. More than half of the voters must agree, so any two quorums
// overlap.
func Quorum(voters int) int { return voters/2 + 1 }

// Votes reports whether a replica in this state may vote. A leaving replica votes until it is removed.
func (s MemberState) Votes() bool { return s == Voter || s == Leaving }

// Voters returns the number of replicas in the set that may vote.
func (s *ReplicaSet) Voters() int {
	n := 0
	for i := range s.Replicas {
		if s.Replicas[i].State.Votes() {
			n++
		}
	}
	return n
}
