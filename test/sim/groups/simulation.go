// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/world"
)

// Plan says what to simulate. The zero value but for Seed is the usual run.
type Plan struct {
	Seed uint64
	// Length of the part with faults, in virtual time; 20 s if 0. A quiet part follows.
	Length time.Duration
	// Wait lets the file systems' background work end before a crash: synctest.Wait.
	Wait func()
	// Bugs are planted.
	Bugs Bugs
	// ChangeCrashes: voters crash just when a change of members is committed.
	ChangeCrashes bool
	// Print hears one line for each fault and each acknowledgement; nil for none.
	Print func(line string)
}

// Report is what a run came to.
type Report struct {
	Plan     Plan
	Trace    uint64
	Duration time.Duration
	Counts   Counts
	// Failures are the violations found; empty for a good run.
	Failures []string
	// Unchecked are the keys whose history took porcupine too long.
	Unchecked int
}

// Counts of what happened.
type Counts struct {
	world.Faults
	Events, Acked, Unknown, LeaseReads, IndexReads int
	Transfers, Resets, Departures                  int
	// LateOffers of leadership reach a process that is paused, LostOffers come from one that is cut off then.
	LateOffers, LostOffers int
	// DoubleStarts are of two processes, while another one has not heard of their leader for long.
	DoubleStarts                  int
	Snapshots, Truncations, Moves int
	Quiesced, Leaders, Compared   int
	// Inherited proposals succeeded after their leader had stepped down, Replaced ones are known to be nowhere, of Lost
	// ones nothing is known. Of FreshAsked replicas FreshReads were fresh enough, FollowerReads of them did not lead.
	Inherited, Replaced, Lost             int
	FreshAsked, FreshReads, FollowerReads int
	// AskedReads are those at followers that asked their leader.
	AskedReads int
	// Discards are snapshots that arrived and were not needed, Unwanted those that did not have to arrive.
	Discards, Unwanted int
	// ChangesInLog are pairs of changes of members that were in a log, and not applied, when a process started.
	ChangesInLog int
}

func (r *Report) String() string {
	return fmt.Sprintf(
		"seed %d: %v, trace %016x, %+v, unchecked %d, failures %v",
		r.Plan.Seed,
		r.Duration,
		r.Trace,
		r.Counts,
		r.Unchecked,
		r.Failures,
	)
}

// Shape of the cluster.
const (
	nodeCount  = 5
	groupCount = 3
	voterCount = 4
	tick       = 50 * time.Millisecond
	elections  = 20
)

// simulation is one run.
type simulation struct {
	*world.World
	plan   Plan
	nodes  []*node
	counts Counts
	hist   history
	laws   laws
	// finished is set when clients end; until lull they begin nothing.
	finished bool
	lull     time.Duration
	// hashes of groups at applied indexes, as first seen.
	hashes   map[stateAt]uint64
	moves    []*move
	replicas uint64 // the last replica id given
}

type stateAt struct{ group, applied uint64 }

// Run simulates one plan.
func Run(p Plan) *Report {
	if p.Length == 0 {
		p.Length = 20 * time.Second
	}
	w := &simulation{World: world.New(p.Seed, nodeCount), plan: p, hashes: map[stateAt]uint64{}, laws: newLaws()}
	w.Wait, w.Print = p.Wait, p.Print
	w.Net.Rough = world.Usual
	w.begin()
	w.startClients()
	w.startChaos()
	// After the faults everything heals; clients go on for a while, then every key is read once more.
	w.After(p.Length, w.heal)
	w.After(p.Length+3*time.Second, func() { w.finished = true })
	w.After(p.Length+7*time.Second, w.lastReads)
	w.World.Run(p.Length + 12*time.Second)
	r := &Report{Plan: p, Duration: w.Now}
	if len(w.Failures) == 0 {
		w.checkConverged()
		r.Unchecked = w.checkHistories()
	}
	for _, n := range w.nodes {
		w.counts.Discards += n.Discards
		w.counts.Unwanted += n.Unwanted
		n.close()
	}
	w.counts.Events, w.counts.Faults = w.Events, w.World.Faults
	r.Trace, r.Counts, r.Failures = w.Trace, w.counts, w.Failures
	return r
}

func nodeID(i int) (id raftgroup.NodeID) {
	id[0] = byte(i + 1)
	return id
}

func nodeOf(id raftgroup.NodeID) int { return int(id[0]) - 1 }
