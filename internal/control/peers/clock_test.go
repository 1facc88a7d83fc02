// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// clocks holds the clocks of a node and of other nodes, as offsets from the correct time.
type clocks struct {
	sched.Driver
	p      *Peers
	steady time.Duration
	own    time.Duration
	told   []time.Duration
	skewed bool
}

var epoch = time.Unix(1_800_000_000, 0)

// newClocks creates a node and other nodes with correct clocks.
func newClocks(others int) *clocks {
	c := &clocks{steady: time.Hour}
	c.p = New(topology.NodeID{}, nil, Options{Observer: c})
	c.p.clock, c.p.began = sched.Driven(c), epoch
	var nodes []topology.NodeID
	for i := range others {
		nodes = append(nodes, topology.NodeID{byte(i + 1)})
	}
	c.p.Watch(nodes)
	return c
}

func (c *clocks) Wall() time.Time { return epoch.Add(c.steady + c.own) }
func (c *clocks) Now() time.Time  { return epoch.Add(c.steady) }

func (*clocks) AliveChanged(topology.NodeID, bool) {}
func (*clocks) Removed()                           {}
func (c *clocks) ClockSkewed(skewed bool, ahead time.Duration) {
	c.skewed = skewed
	c.told = append(c.told, ahead)
}

// hear advances the time and delivers the clocks of some other nodes.
func (c *clocks) hear(ahead ...time.Duration) {
	c.steady += time.Second
	for i, a := range ahead {
		c.p.handleReport(topology.NodeID{byte(i + 1)}, c.steady-100*time.Millisecond,
			Report{Clock: epoch.Add(c.steady - 50*time.Millisecond + a)})
	}
}

// off returns the difference between a time and the correct time.
func (c *clocks) off(t time.Time) time.Duration { return t.Sub(epoch.Add(c.steady)) }

const minute = time.Minute

// TestClockIsHeld checks PE3 for each way in which the clocks of a cluster may differ. It checks the results of Wall
// and EarliestNow, and whether the node detects that its clock is incorrect.
func TestClockIsHeld(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		own    time.Duration
		others []time.Duration
		// now and past are the differences of Wall and EarliestNow from the correct time.
		now, past, ahead time.Duration
	}{
		{"all are right", 4, 0, []time.Duration{0, 0, 0}, 0, -clockTolerance, 0},
		{"all differ a little", 4, 300 * time.Millisecond, []time.Duration{0, 100 * time.Millisecond,
			200 * time.Millisecond},
			300 * time.Millisecond, 100*time.Millisecond - clockTolerance, 0},
		{"the own is ahead", 4, 2 * minute, []time.Duration{0, 0, 0}, clockTolerance, -clockTolerance, 2 * minute},
		{"the own is behind", 4, -2 * minute, []time.Duration{0, 0, 0}, -clockTolerance, -2*minute - clockTolerance,
			-2 * minute},
		{"another one is ahead", 4, 0, []time.Duration{2 * minute, 0, 0}, 0, -clockTolerance, 0},
		{"another one is behind", 4, 0, []time.Duration{-2 * minute, 0, 0}, 0, -clockTolerance, 0},
		{"two of four are ahead, the own is", 4, 2 * minute, []time.Duration{2 * minute, 0, 0}, clockTolerance,
			-clockTolerance, 0},
		{"two of four are ahead, the own is not", 4, 0, []time.Duration{2 * minute, 2 * minute, 0}, 0, -clockTolerance,
			0},
		{"three nodes, the own is ahead", 3, minute, []time.Duration{0, 0}, clockTolerance, -clockTolerance, minute},
		{"two nodes, the own is ahead: nobody knows who is right", 2, minute, []time.Duration{0}, clockTolerance,
			-clockTolerance, 0},
		{"two of three answer, the own is ahead", 3, minute, []time.Duration{0}, clockTolerance, -clockTolerance, 0},
		{"one of four answers: no quorum", 4, minute, []time.Duration{0}, minute, minute - clockTolerance, 0},
		{"nobody else is there", 1, minute, nil, minute, minute - clockTolerance, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newClocks(c.nodes - 1)
			k.own = c.own
			k.hear(c.others...)
			if got := k.off(k.p.Wall()); got != c.now {
				t.Errorf("Now is off by %v, want %v", got, c.now)
			}
			if got := k.off(k.p.EarliestNow()); got != c.past {
				t.Errorf("Past is off by %v, want %v", got, c.past)
			}
			if got := k.p.ClockOffset(); got != c.ahead {
				t.Errorf("Ahead is %v, want %v", got, c.ahead)
			}
		})
	}
}

// TestClockJumps checks that a node detects a jump of its clock and the size of the jump before it receives other
// clocks again. ClockSkewed is called once when the jump is detected and once when it is over.
func TestClockJumps(t *testing.T) {
	c := newClocks(3)
	c.hear(0, 0, 0)
	c.told = nil
	c.own = 45 * 24 * time.Hour
	c.steady += time.Second
	if now, past := c.off(c.p.Wall()), c.off(c.p.EarliestNow()); now != clockTolerance || past != -clockTolerance {
		t.Errorf("Now is off by %v, Past by %v", now, past)
	}
	for range 3 {
		c.hear(0, 0, 0)
	}
	c.own = 0
	for range 3 {
		c.hear(0, 0, 0)
	}
	if len(c.told) != 2 || c.told[0] != 45*24*time.Hour || c.told[1] != 0 {
		t.Errorf("ClockSkewed received %v", c.told)
	}
	if now := c.off(c.p.Wall()); now != 0 {
		t.Errorf("Now is off by %v", now)
	}
}

// TestClocksMoveTogether checks that a cluster follows its clocks if all clocks are adjusted.
func TestClocksMoveTogether(t *testing.T) {
	c := newClocks(3)
	c.hear(0, 0, 0)
	c.own = -minute
	c.hear(-minute, -minute, -minute)
	if now, ahead := c.off(c.p.Wall()), c.p.ClockOffset(); now != -minute || ahead != 0 {
		t.Errorf("Now is off by %v, Ahead is %v", now, ahead)
	}
}

// TestSilentNodesClock checks that the clocks of silent nodes are ignored, and that the last result of a quorum remains
// valid after the quorum is lost.
func TestSilentNodesClock(t *testing.T) {
	c := newClocks(2)
	c.hear(0, 0)
	c.steady += time.Hour
	c.own = minute
	if now := c.off(c.p.Wall()); now != clockTolerance {
		t.Errorf("without a quorum Now is off by %v", now)
	}
	c.own = 0
	c.hear(minute) // the other node is silent
	if h := c.p.bounds.Load(); !h.low.Equal(epoch.Add(c.steady)) || !h.high.Equal(epoch.Add(c.steady+minute)) {
		t.Errorf("%+v", h)
	}
}

// TestUnknownClockIsDoubted checks that a node is considered skewed until its clock has been compared with the clocks
// of a quorum. Otherwise, a node that was started with a wrong clock would assign wrong timestamps. After
// unverifiedMax, the clock must be considered correct.
func TestUnknownClockIsDoubted(t *testing.T) {
	c := newClocks(4)
	if !c.skewed {
		t.Error("an unverified clock is considered right")
	}
	if c.hear(0); !c.skewed {
		t.Error("one other clock is not a quorum")
	}
	if c.hear(0, 0); c.skewed {
		t.Error("a quorum confirms the clock, but it is considered wrong")
	}
	c = newClocks(4)
	c.own = time.Minute
	if c.hear(0, 0, 0); !c.skewed || c.told[len(c.told)-1] == 0 {
		t.Errorf("a quorum contradicts the clock; ClockSkewed received %v", c.told)
	}
	c = newClocks(4)
	c.steady += unverifiedMax
	if c.p.watchClock(); c.skewed {
		t.Error("the clock is considered wrong after unverifiedMax")
	}
	if c = newClocks(0); c.skewed {
		t.Error("a node without other nodes considers its clock wrong")
	}
}
