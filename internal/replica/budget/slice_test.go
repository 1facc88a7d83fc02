// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// group is a leader with its balance and two followers, each with its own clients. It also records the units that the
// leader and each follower granted.
type group struct {
	leader    *Budget
	term      uint64
	followers [2]*Slice
	// here is the load that the followers have served on their own, without the leader.
	given, here ru.Units
	refused     int
}

// ask sends a request to a follower or to the leader.
func (g *group) ask(by int, price ru.Units, now Instant) {
	if by < len(g.followers) {
		s := g.followers[by]
		if wait, ok := s.Admit(one, now); ok {
			if wait > 0 {
				g.refused++
				return
			}
			s.Spend(price)
			g.given, g.here = g.given+price, g.here+price
			return
		}
		owed, wanted := s.Request(now)
		if wait := g.leader.Admit(g.term, one, now); wait > 0 {
			g.refused++
			s.Refuse(one, (wait + time.Millisecond - 1).Truncate(time.Millisecond), now)
			return
		}
		g.leader.Charge(one, price)
		s.Lend(g.leader.Lend(owed, wanted), price, now)
		g.given += price
		return
	}
	if g.leader.Admit(g.term, one, now) > 0 {
		g.refused++
		return
	}
	g.leader.Charge(one, price)
	g.given += price
}

// run makes all clients send requests, each perSecond times per second.
func (g *group) run(c *clock, perSecond [3]int, price ru.Units, d time.Duration) {
	var next [3]Instant
	for i := range next {
		next[i] = c.now + Instant(i*1000)
	}
	for end := c.now + Instant(d); c.now < end; {
		first := -1
		for i := range next {
			if perSecond[i] > 0 && (first < 0 || next[i] < next[first]) {
				first = i
			}
		}
		c.now = next[first]
		next[first] += Instant(int(time.Second) / perSecond[first])
		g.ask(first, price, c.now)
	}
}

// TestSlices checks that the leader and the followers together grant the budget within 1% over 30 s. The test sends
// excess requests to the leader and to each follower, with several request prices. If the leader changes, the limit is
// 3%. The test also checks that followers grant nearly all units themselves.
func TestSlices(t *testing.T) {
	const half = 15 * time.Second
	for name, c := range map[string]struct {
		rate      int64
		perSecond [3]int
		price     ru.Units
		change    bool
		want      float64 // in RU/s
		slack     float64
		here      float64 // minimum share that followers serve
	}{
		"overload everywhere":        {10_000, [3]int{20_000, 10_000, 30_000}, ru.Unit, false, 10_000, 0.01, 0},
		"overload at one follower":   {10_000, [3]int{30_000, 0, 0}, ru.Unit, false, 10_000, 0.01, 0},
		"overload at a small table":  {400, [3]int{2_000, 2_000, 100}, ru.Unit, false, 400, 0.01, 0},
		"large requests":             {6_000, [3]int{100, 100, 100}, 100 * ru.Unit, false, 6_000, 0.02, 0},
		"the leader changes":         {10_000, [3]int{20_000, 10_000, 30_000}, ru.Unit, true, 10_000, 0.03, 0},
		"of a small table":           {400, [3]int{2_000, 2_000, 100}, ru.Unit, true, 400, 0.03, 0},
		"within the budget":          {10_000, [3]int{3_000, 2_000, 1_000}, ru.Unit, false, 6_000, 0.001, 0.8},
		"reads and scans, followers": {10_000, [3]int{500, 500, 0}, 9 * ru.Unit, false, 9_000, 0.001, 0.9},
	} {
		b, clock := newBudget(c.rate)
		g := &group{leader: b, term: 1, followers: [2]*Slice{new(Slice), new(Slice)}}
		// a small table has already spent its savings
		g.run(clock, [3]int{1000, 1000, 1000}, ru.Unit, 310*time.Second*time.Duration(min(1, 3000/c.rate)))
		g.given, g.here, g.refused = 0, 0, 0
		g.run(clock, c.perSecond, c.price, half)
		if c.change {
			other := new(Budget)
			other.Set(c.rate, 0)
			g.leader, g.term = other, 2
		}
		g.run(clock, c.perSecond, c.price, half)
		got, here := g.given.Float()/30, float64(g.here)/float64(g.given)
		if math.Abs(got-c.want) > c.slack*c.want || here < c.here {
			t.Errorf("%s: %.0f RU/s, want %.0f; followers served %.2f of it, want %.2f; %d refused", name, got, c.want,
				here, c.here, g.refused)
		}
		t.Logf("%s: %.0f RU/s, followers served %.2f, %d refused", name, got, here, g.refused)
	}
}

// TestSliceLapses checks that the unused units of a slice expire after a second. The test also checks that a follower
// with few requests does not request a slice, so a table with little load pays nothing for slices.
func TestSliceLapses(t *testing.T) {
	b, c := newBudget(10_000)
	g := &group{leader: b, term: 1, followers: [2]*Slice{new(Slice), new(Slice)}}
	g.run(c, [3]int{10, 0, 0}, ru.Unit, 10*time.Second)
	if g.here > 0 {
		t.Errorf("a follower with ten requests per second was lent %v RU", g.here.Float())
	}
	g.run(c, [3]int{5_000, 0, 0}, ru.Unit, time.Second)
	s := g.followers[0]
	for i := 0; ; i++ {
		if _, ok := s.Admit(one, c.now); ok {
			break
		}
		if g.ask(0, ru.Unit, c.now); i > 100 {
			t.Fatal("the follower received no units")
		}
		c.pass(window)
	}
	c.pass(sliceTTL)
	if _, ok := s.Admit(one, c.now); ok {
		t.Error("it has something after a second")
	}
	c.pass(10 * window)
	if owed, _ := s.Request(c.now); owed != 0 || s.left.Load() > 0 {
		t.Errorf("debt %v, balance %v", owed, s.left.Load())
	}
}
