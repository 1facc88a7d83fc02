// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

var (
	phaseKills = flag.Int("phase-kills", 20, "number of kills of TestKillInEveryPhase with -cluster.long")
	phaseSeed  = flag.Uint64("phase-seed", 0, "seed of TestKillInEveryPhase; 0: a random one")
)

// phaseTable is the table that is split, merged, and moved while nodes are killed.
const phaseTable = "load.plain"

// phases lists, by kind of change, the phases that are visible in the partition map of any node. The random pause
// before the kill reaches the phases that are too short to be visible.
var phases = map[string][]string{
	"split": {"ordered", "done"},
	"merge": {"ordered", "freezing", "merging", "done"},
	"move":  {"ordered", "learner", "joining", "leaving", "done"},
}

// victims lists the roles of the nodes that can be killed.
var victims = []string{"leader", "follower", "records", "source", "target"}

// phaseKill is one kill.
type phaseKill struct {
	what, phase, role string
	pause             time.Duration
}

// change is an ordered change of partitions.
type change struct {
	what     string
	id       uint64 // the left partition of a merge
	leader   string // leader of the partition, or of the right partition of a merge
	replicas []admin.ReplicaStatus
	source   string // source of a move
	target   string
	before   int // number of partitions
	// completed is closed when the request for a merge has a response. The request waits until the replicas are on the
	// same nodes.
	completed chan struct{}
	err       error
}

// TestKillInEveryPhase kills a node while a partition splits, merges, or moves. Clients must see no errors, and no
// data may be lost, stale, or duplicated. The node is the leader, a follower, the leader of the metadata, or the
// source or target of the move. The kill occurs in any phase. The short form of the test kills the leader in a split
// and in a merge.
func TestKillInEveryPhase(t *testing.T) {
	n := 4
	if *long {
		n = 5 // so that a replica has a node to which it can move
	}
	f := startFleet(t, n, "")
	l := startLoad(f, *clients, 0)
	seed := *phaseSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 9))
	kills := []phaseKill{{what: "split", phase: "ordered", role: "leader"},
		{what: "merge", phase: "freezing", role: "leader"}}
	if *long {
		kills = drawKills(rng, *phaseKills)
	}
	met := map[string]int{}
	for _, k := range kills {
		met[l.killIn(k, rng)]++
		if t.Failed() {
			break
		}
	}
	for _, what := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%d times: %s", met[what], what)
	}
	l.finish()
}

// drawKills returns all combinations of changes, phases, and roles in a random order.
func drawKills(rng *rand.Rand, n int) (out []phaseKill) {
	var all []phaseKill
	for what, names := range phases {
		for _, phase := range names {
			for _, role := range victims {
				if what == "move" || role != "source" && role != "target" {
					all = append(all, phaseKill{what: what, phase: phase, role: role})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b phaseKill) int { return cmp.Compare(a.what+a.phase+a.role, b.what+b.phase+b.role) })
	for len(out) < n {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, k := range all[:min(len(all), n-len(out))] {
			k.pause = time.Duration(rng.Int64N(int64(30 * time.Millisecond)))
			out = append(out, k)
		}
	}
	return out
}

// killIn requests a change, kills a node in one of the change's phases, waits until the change has ended, and starts
// the node again. killIn returns the role and the phase of the kill.
func (l *load) killIn(k phaseKill, rng *rand.Rand) string {
	l.t.Helper()
	f := l.f
	c := l.draw(k.what, rng)
	victim := l.victim(c, k.role)
	l.only(f.without(victim)...)
	l.more(*requests / 64)
	orderer := l.holder(c.replicas, rng, victim)
	go func() {
		defer close(c.completed)
		c.err = process.TryOrder(orderer.dir, c.order())
	}()
	if c.what != "merge" {
		if <-c.completed; c.err != nil {
			l.t.Logf("%s: %v", c.what, c.err)
			return c.what + " was rejected"
		}
	}
	seen := c.await(orderer, k.phase)
	l.lasts(k.pause)
	name := fmt.Sprintf("kill of %s, %s, in %s of partition %d: %s", victim.name(), k.role, k.what, c.id, seen)
	l.mark(name)
	victim.kill()
	l.more(*requests / 32)
	var last string
	ended := func() string {
		if last = c.phase(orderer); last == "done" || last == "canceled" {
			return ""
		}
		return last
	}
	if c.what != "move" { // a move waits for the replica set to be complete
		f.until(c.what+" has ended", 2*settleTime, ended)
	}
	l.mark("start of " + victim.name())
	victim.start()
	f.until(c.what+" has ended", 2*settleTime, ended)
	f.settle()
	l.only(f.alive()...)
	l.more(*requests / 32)
	<-c.completed
	return fmt.Sprintf("%s, %s killed when %s: %s", c.what, k.role, seen, last)
}

// draw chooses a change of the table. A merge first splits the table if necessary.
func (l *load) draw(what string, rng *rand.Rand) *change {
	l.t.Helper()
	a := l.f.nodes[0]
	ps := a.partitionsOf(phaseTable)
	if what == "merge" && len(ps) == 1 {
		l.holder(ps[0].Replicas, rng).split(phaseTable, ps[0].ID, "&wait=true")
		l.f.settle()
		ps = a.partitionsOf(phaseTable)
	}
	if what == "split" && len(ps) > 10 {
		what = "merge"
	}
	i := rng.IntN(len(ps))
	if what == "merge" {
		i = rng.IntN(len(ps) - 1)
	}
	p := &ps[i]
	c := &change{what: what, id: p.ID, leader: p.Leader, replicas: p.Replicas, before: len(ps),
		completed: make(chan struct{})}
	switch what {
	case "merge": // another node that leads the right partition must stop
		c.target = fmt.Sprint(ps[i+1].ID)
		if rng.IntN(2) == 0 {
			c.leader = ps[i+1].Leader
		}
	case "move":
		_, to := exchange(l.f, *p)
		c.source, c.target = p.Replicas[rng.IntN(len(p.Replicas))].Node, to.id()
	}
	return c
}

// holder returns a node that has one of the replicas and is not excluded. The node knows the middle of their
// partition.
func (l *load) holder(replicas []admin.ReplicaStatus, rng *rand.Rand, not ...*member) *member {
	l.t.Helper()
	var out []*member
	for _, m := range l.f.without(not...) {
		id := m.id()
		if slices.ContainsFunc(replicas, func(r admin.ReplicaStatus) bool { return r.Node == id }) {
			out = append(out, m)
		}
	}
	return out[rng.IntN(len(out))]
}

// order returns the URL path of the request.
func (c *change) order() string {
	table := url.QueryEscape(phaseTable)
	switch c.what {
	case "merge":
		return fmt.Sprintf("/partition/merge?table=%s&partition=%d&with=%s&now=true&wait=true", table, c.id, c.target)
	case "move":
		return fmt.Sprintf("/partition/move?table=%s&partition=%d&from=%s&to=%s", table, c.id, c.source, c.target)
	}
	return splitOrder(phaseTable, c.id)
}

// victim returns the node that has a role in the change. If the change has no such role, it returns the leader.
func (l *load) victim(c *change, role string) *member {
	l.t.Helper()
	want := c.leader
	switch role {
	case "follower":
		for _, r := range c.replicas {
			if r.Node != c.leader {
				want = r.Node
			}
		}
	case "source":
		want = c.source
	case "target":
		want = c.target
	case "records":
		if m := l.f.recordsLeader(); m != nil {
			return m
		}
	}
	for _, m := range l.f.alive() {
		if m.id() == want {
			return m
		}
	}
	return l.f.leader(phaseTable)
}

// recordsLeader returns the leader of the metadata, which leads one partition more than the tables have.
func (f *fleet) recordsLeader() *member {
	for _, m := range f.alive() {
		s, err := m.status()
		if err != nil {
			continue
		}
		leads := 0
		for _, n := range s.Nodes {
			if n.ID == s.Node {
				leads = n.Leading
			}
		}
		for _, t := range s.Tables {
			for _, p := range t.Partitions {
				if p.Leader == s.Node {
					leads--
				}
			}
		}
		if leads > 0 {
			return m
		}
	}
	return nil
}

// await waits until a node sees a change in a phase, or sees that the change has passed all visible phases. await
// returns that phase.
func (c *change) await(m *member, phase string) (seen string) {
	eventually.Try(30*time.Second, func() string {
		seen = c.phase(m)
		if seen == phase || seen == "done" || seen == "canceled" {
			return ""
		}
		return seen
	})
	return seen
}

// phase returns the phase of the change according to a node.
func (c *change) phase(m *member) string {
	s, err := m.status()
	if err != nil {
		return err.Error()
	}
	i := slices.IndexFunc(s.Tables, func(t admin.TableStatus) bool { return t.Name == phaseTable })
	if i < 0 {
		return "no such table"
	}
	ps := s.Tables[i].Partitions
	j := slices.IndexFunc(ps, func(p admin.PartitionStatus) bool { return p.ID == c.id })
	if j < 0 {
		return "the partition is gone"
	}
	p := &ps[j]
	switch c.what {
	case "split":
		if p.SplitsAt == "" && len(ps) > c.before {
			return "done"
		}
		return "ordered"
	case "merge":
		switch {
		case p.MergeStage != "":
			return p.MergeStage
		case len(ps) < c.before:
			return "done"
		}
		select {
		case <-c.completed:
			return "canceled"
		default:
			return "ordered" // the replicas are first moved to the same nodes
		}
	}
	return c.moved(p)
}

// moved returns the phase of a move.
func (c *change) moved(p *admin.PartitionStatus) string {
	state := "ordered"
	source := false
	for _, r := range p.Replicas {
		source = source || r.Node == c.source
		if r.State != "voter" {
			state = r.State
		}
	}
	switch {
	case state == "ordered" && !source:
		return "done"
	case state == "ordered" && len(p.Wanted) == 0:
		return "canceled"
	}
	return state
}
