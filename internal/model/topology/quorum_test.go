// SPDX-License-Identifier: Apache-2.0

package topology

import "testing"

// TestQuorum checks that any two quorums overlap, and that quorums with fewer members would not always overlap.
// Leaving members must count toward a quorum, and joining members must not count.
func TestQuorum(t *testing.T) {
	for n := 1; n <= 9; n++ {
		if q := Quorum(n); 2*q <= n || 2*(q-1) > n {
			t.Errorf("the quorum of %d is %d", n, q)
		}
	}
	s := ReplicaSet{Replicas: []Replica{{State: Voter}, {State: Joining}, {State: Leaving}, {State: Learner},
		{State: Voter}}}
	if n := s.Voters(); n != 3 {
		t.Errorf("%d voters", n)
	}
}
