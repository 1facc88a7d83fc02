// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"fmt"
	"slices"
	"testing"
)

// TestAbstainersLead checks that a group has a leader for every set of abstaining voters and every single voter that is
// down. A voter that does not abstain must lead as soon as such a voter exists, even if the nodes do not know which
// voters abstain.
func TestAbstainersLead(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, c := range []struct {
			abstain []int
			down    int
		}{
			{[]int{0}, -1}, {[]int{0, 1}, -1}, {[]int{0, 2, 3}, -1}, {[]int{0, 1, 2, 3}, -1},
			{[]int{1, 2, 3}, 0}, {[]int{1, 2}, 0}, {[]int{0, 1, 2, 3}, 0},
		} {
			t.Run(fmt.Sprintf("%v abstain, %d is down, known %v", c.abstain, c.down, known), func(t *testing.T) {
				l := newLockstep(t, 4)
				l.lead(0)
				l.abstain(known, c.abstain...)
				if c.down >= 0 {
					l.down[c.down] = true
				}
				_, stretch := l.writes(220, nil)
				// An election takes an election timeout of 20 ticks, and another timeout if the votes are split.
				most := 60
				switch {
				case c.down < 0 && known:
					most = 4 // the duration of an offer
				case c.down < 0:
					most = 8
				case !known:
					most += 130 // the known state of a voter may be wrong, so the test allows more time
				}
				if stretch > most {
					t.Errorf("no write succeeds for %d ticks", stretch)
				}
				leader := l.leader()
				others := len(c.abstain) < 4 && !(len(c.abstain) == 3 && c.down == 0)
				if leader < 0 || others && slices.Contains(c.abstain, leader) {
					t.Errorf("node %d leads", leader)
				}
			})
		}
	}
}

// TestTransferAllPastAbstainer checks that a stopping node transfers its leadership immediately, for every set of other
// voters that abstain, and even if its first choice declines. If all other voters are known to abstain, it must
// transfer the leadership to one of them.
func TestTransferAllPastAbstainer(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, abstain := range [][]int{nil, {1}, {2}, {3}, {1, 2}, {1, 2, 3}} {
			if len(abstain) == 3 && !known {
				continue
			}
			l := newLockstep(t, 4)
			l.lead(0)
			l.abstain(known, abstain...)
			ticks := 0
			_, stretch := l.writes(60, func() {
				if l.nodes[0].host.TransferAll() > 0 {
					ticks++
				}
			})
			leader := l.leader()
			if leader <= 0 || len(abstain) < 3 && slices.Contains(abstain, leader) || ticks > 12 || stretch > 2 {
				t.Errorf("%v abstain, known %v: transferred after %d ticks to node %d, no write for %d", abstain, known,
					ticks, leader, stretch)
			}
		}
	}
}

// TestOffersPause checks that a leader whose offers are neither accepted nor declined accepts proposals between the
// offers.
func TestOffersPause(t *testing.T) {
	l := newLockstep(t, 4)
	l.lead(0)
	l.nodes[0].host.Abstain(true)
	l.mute = true
	failed, stretch := l.writes(200, nil)
	if failed > 100 || stretch > 6 || l.leader() != 0 {
		t.Errorf("no write in %d of 200 ticks, %d of them consecutive; node %d leads", failed, stretch, l.leader())
	}
}
