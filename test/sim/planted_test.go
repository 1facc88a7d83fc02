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
		// seed found it when it was last looked for from the first on, and is tried first. Where what is drawn from a
		// seed has changed since, all are.
		seed uint64
	}{
		{"the log is not synced", Bugs{NoSync: true}, 1},
		{"the log is cut without a sync of the state", Bugs{EarlyTruncation: true}, 1},
		{"a snapshot has the wrong index", Bugs{WrongSnapshotIndex: true}, 1},
		{"a lease is too long", Bugs{LongLease: true}, 4},
		{"a counter is added to twice", Bugs{DoubleCounter: true}, 2},
		{"a replica sweeps by its clock", Bugs{ClockSweep: true}, 3},
		{"two spans overlap", Bugs{Overlap: true}, 1},
		{"a proposal outlives its term", Bugs{StaleTerm: true}, 3},
		{"a follower is read that is not fresh, or removed", Bugs{AnyFollower: true}, 1},
		{"a follower reads at QUORUM what it has not applied", Bugs{UnappliedRead: true}, 2},
		{"the records are changed without a comparison", Bugs{LostSwap: true}, 1},
		{"a plain write is sent again without its id", Bugs{PlainRetry: true}, 7},
		{"a leader begins below the highest stamp", Bugs{LowStamp: true}, 2},
		{"a batch is stamped before its leaders have it", Bugs{EarlyStamp: true}, 1},
		{"a part of a batch is applied without the entries of a new index", Bugs{StaleEntries: true}, 7},
		{"a build of an index does not wait for what was planned before", Bugs{NoRequire: true}, 20},
		{"a refused connection is taken for a death", Bugs{RefusalIsDeath: true}, 23},
		{"leaders stamp by clocks that may be wrong", Bugs{FarStamp: true}, 21},
		{"sweeps go by clocks that may be wrong", Bugs{EarlySweep: true}, 7},
		{"a node leads whatever its clock shows", Bugs{SkewedLeader: true}, 1},
		{"a log that does not go with the rows is used", Bugs{AnyLog: true}, 4},
		{"a directory that was put back is let in", Bugs{AnyCopy: true}, 5},
		{"a node that was replaced does not come back", Bugs{NoReturn: true}, 2},
		{"an applied condition is stamped below what it read", Bugs{LowCondition: true}, 2},
		{"the id of a repeated write is forgotten", Bugs{ForgottenID: true}, 7},
		{"what is unknown is taken for not done", Bugs{HastyFate: true}, 1},
		{"what came of a split is born by the map", Bugs{ChildByMap: true}, 5},
		{"the child of a split is taken for an orphan", Bugs{ChildIsOrphan: true}, 14},
		{"the map is told of a split that no log has", Bugs{MapFirst: true}, 2},
	} {
		t.Run(b.name, func(t *testing.T) {
			if finds(t, b.bugs, b.seed) {
				return
			}
			if testing.Short() {
				t.Skip("many seeds")
			}
			for seed := *first; seed < *first+*within; seed++ {
				if finds(t, b.bugs, seed) {
					return
				}
			}
			t.Errorf("not found in %d seeds", *within)
		})
	}
}

// finds reports whether a seed finds planted bugs.
func finds(t *testing.T, bugs Bugs, seed uint64) bool {
	h := Usual
	h.Splits = bugs.ChildByMap || bugs.ChildIsOrphan || bugs.MapFirst
	r := run(t, Plan{Seed: seed, Bugs: bugs, With: h})
	if len(r.Failures) == 0 {
		return false
	}
	t.Logf("found with seed %d after %v: %s", seed, r.Duration, r.Failures[0])
	return true
}
