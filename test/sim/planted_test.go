// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"testing"
)

var within = flag.Uint64("sim.within", 200, "seeds in which a planted bug must be found")

// TestPlantedBugsAreFound proves that the simulator sees what it is there to see: each planted bug fails within 200
// seeds.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, b := range []struct {
		name string
		bugs Bugs
		rare bool // takes a coincidence, so many seeds
	}{
		{"the log is not synced", Bugs{NoSync: true}, false},
		{"the log is cut without a sync of the state", Bugs{EarlyTruncation: true}, false},
		{"a snapshot has the wrong index", Bugs{WrongSnapshotIndex: true}, false},
		{"a lease is too long", Bugs{LongLease: true}, true},
		{"a counter is added to twice", Bugs{DoubleCounter: true}, false},
		{"a replica sweeps by its clock", Bugs{ClockSweep: true}, false},
		{"two spans overlap", Bugs{Overlap: true}, false},
		{"a proposal outlives its term", Bugs{StaleTerm: true}, true},
		{"a follower is read that is not fresh, or removed", Bugs{AnyFollower: true}, false},
		{"a follower reads at QUORUM what it has not applied", Bugs{UnappliedRead: true}, false},
		{"the records are changed without a comparison", Bugs{LostSwap: true}, false},
		{"a plain write is sent again without its id", Bugs{PlainRetry: true}, true},
		{"a leader begins below the highest stamp", Bugs{LowStamp: true}, true},
		{"a batch is stamped before its leaders have it", Bugs{EarlyStamp: true}, false},
		{"a part of a batch is applied without the entries of a new index", Bugs{StaleEntries: true}, true},
		{"a build of an index does not wait for what was planned before", Bugs{NoRequire: true}, true},
		{"a refused connection is taken for a death", Bugs{RefusalIsDeath: true}, true},
		{"leaders stamp by clocks that may be wrong", Bugs{FarStamp: true}, true},
		{"sweeps go by clocks that may be wrong", Bugs{EarlySweep: true}, true},
		{"a node leads whatever its clock shows", Bugs{SkewedLeader: true}, false},
		{"a log that does not go with the rows is used", Bugs{AnyLog: true}, true},
		{"a directory that was put back is let in", Bugs{AnyCopy: true}, true},
		{"a node that was replaced does not come back", Bugs{NoReturn: true}, true},
		{"an applied condition is stamped below what it read", Bugs{LowCondition: true}, false},
		{"the id of a repeated write is forgotten", Bugs{ForgottenID: true}, true},
		{"what is unknown is taken for not done", Bugs{HastyFate: true}, true},
	} {
		t.Run(b.name, func(t *testing.T) {
			if b.rare && testing.Short() {
				t.Skip("many seeds")
			}
			for seed := *first; seed < *first+*within; seed++ {
				if r := run(t, Plan{Seed: seed, Bugs: b.bugs, With: Usual}); len(r.Failures) > 0 {
					t.Logf("found with seed %d after %v: %s", seed, r.Duration, r.Failures[0])
					return
				}
			}
			t.Errorf("not found in %d seeds", *within)
		})
	}
}
