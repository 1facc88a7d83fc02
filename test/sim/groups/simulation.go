// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// Plan describes a simulation. The zero value with a Seed is the usual run.
type Plan struct {
	Seed uint64
	// Length is the duration of the phase with faults in virtual time. The value 0 means 20 s. A calm phase follows
	// the phase with faults.
	Length time.Duration
	// Wait is synctest.Wait, which waits for the background work of the file systems before a crash.
	Wait func()
	// Bugs holds the planted bugs.
	Bugs Bugs
	// ChangeCrashes makes voters crash when a membership change is committed.
	ChangeCrashes bool
	// Print receives one line for each fault and each acknowledgement. Print may be nil.
	Print func(line string)
}

// Report is the result of a run.
type Report struct {
	Plan     Plan
	Trace    uint64
	Duration time.Duration
	Counts   Counts
	// Failures holds the violations found. Failures is empty for a successful run.
	Failures []string
	// Unchecked is the number of keys whose histories porcupine could not check in time.
	Unchecked int
}

// Counts holds the numbers of events in a run.
type Counts struct {
	simenv.Faults
	Events, Acked, Unknown, LeaseReads, IndexReads int
	Transfers, Resets, Departures                  int
	// LateOffers counts offers of leadership that reach a paused process. LostOffers counts offers whose sender is cut
	// off afterward.
	LateOffers, LostOffers int
	// DoubleStarts counts restarts of two processes while a third process has received no messages from their leader
	// for a long time.
	DoubleStarts                  int
	Snapshots, Truncations, Moves int
	Quiesced, Leaders, Compared   int
	// Inherited counts proposals that succeeded after their leader had stepped down. Replaced counts proposals that
	// are known to be in no log. Lost counts proposals with an unknown outcome. FreshAsked counts freshness checks of
	// replicas, FreshReads counts the successful checks, and FollowerReads counts the successful checks of followers.
	Inherited, Replaced, Lost             int
	FreshAsked, FreshReads, FollowerReads int
	// AskedReads counts reads on followers after a request to their leader.
	AskedReads int
	// Discards counts unnecessary snapshots that arrived. Unwanted counts snapshots that did not need to be sent.
	Discards, Unwanted int
	// ChangesInLog counts pairs of unapplied membership changes that were in a log when a process started.
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

// These constants determine the size and the timing of the cluster.
const (
	nodeCount  = 5
	groupCount = 3
	voterCount = 4
	tick       = 50 * time.Millisecond
	elections  = 20
)

// simulation holds the state of a run.
type simulation struct {
	*simenv.Environment
	plan       Plan
	nodes      []*node
	counts     Counts
	hist       history
	invariants invariants
	// finished is set when the clients end. Clients start no operations before the time lull.
	finished bool
	lull     time.Duration
	// hashes holds the first observed hash of each group at each applied index.
	hashes   map[stateAt]uint64
	moves    []*move
	replicas uint64 // the last replica ID that was assigned
}

type stateAt struct{ group, applied uint64 }

// Run simulates a plan.
func Run(p Plan) *Report {
	if p.Length == 0 {
		p.Length = 20 * time.Second
	}
	w := &simulation{Environment: simenv.New(p.Seed, nodeCount), plan: p, hashes: map[stateAt]uint64{},
		invariants: newInvariants()}
	w.Wait, w.Print = p.Wait, p.Print
	w.Net.Rough = simenv.Usual
	w.begin()
	w.startClients()
	w.startChaos()
	// All faults end after the phase with faults. Clients continue for some time. Then every key is read once more.
	w.After(p.Length, w.heal)
	w.After(p.Length+3*time.Second, func() { w.finished = true })
	w.After(p.Length+7*time.Second, w.lastReads)
	w.Environment.Run(p.Length + 12*time.Second)
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
	w.counts.Events, w.counts.Faults = w.Events, w.Environment.Faults
	r.Trace, r.Counts, r.Failures = w.Trace, w.counts, w.Failures
	return r
}

func nodeID(i int) (id raftgroup.NodeID) {
	id[0] = byte(i + 1)
	return id
}

func nodeOf(id raftgroup.NodeID) int { return int(id[0]) - 1 }
