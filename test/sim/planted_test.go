// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/test/sim/planted"
)

// TestPlantedBugsAreFound checks that the simulator finds each planted bug within 200 seeds.
func TestPlantedBugsAreFound(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("takes minutes and needs -tags invariants")
	}
	seeds := planted.Read(t)
	for _, b := range []struct {
		name string
		bugs Bugs
	}{
		{"the log is not synced", Bugs{NoSync: true}},
		{"the log is cut without a sync of the state", Bugs{EarlyTruncation: true}},
		{"a snapshot has the wrong index", Bugs{WrongSnapshotIndex: true}},
		{"a lease is too long", Bugs{LongLease: true}},
		{"a counter is added to twice", Bugs{DoubleCounter: true}},
		{"a replica sweeps by its clock", Bugs{ClockSweep: true}},
		{"two spans overlap", Bugs{Overlap: true}},
		{"a proposal outlives its term", Bugs{StaleTerm: true}},
		{"a follower is read that is not fresh, or removed", Bugs{AnyFollower: true}},
		{"a follower reads at QUORUM what it has not applied", Bugs{UnappliedRead: true}},
		{"the records are changed without a comparison", Bugs{LostSwap: true}},
		{"a leader begins below the highest stamp", Bugs{LowStamp: true}},
		{"a batch is stamped before its leaders have it", Bugs{EarlyStamp: true}},
		{"a part of a batch is applied without the entries of a new index", Bugs{StaleEntries: true}},
		{"a build of an index does not wait for what was planned before", Bugs{NoRequire: true}},
		{"a refused connection is taken for a death", Bugs{RefusalIsDeath: true}},
		{"leaders stamp by clocks that may be wrong", Bugs{FarStamp: true}},
		{"sweeps go by clocks that may be wrong", Bugs{EarlySweep: true}},
		{"a node leads whatever its clock shows", Bugs{SkewedLeader: true}},
		{"a log that does not go with the rows is used", Bugs{AnyLog: true}},
		{"a directory that was put back is let in", Bugs{AnyCopy: true}},
		{"a node that was replaced does not come back", Bugs{NoReturn: true}},
		{"an applied condition is stamped below what it read", Bugs{LowCondition: true}},
		{"the id of a repeated write is forgotten", Bugs{ForgottenID: true}},
		{"what is unknown is taken for not done", Bugs{HastyFate: true}},
		{"what came of a split is born by the map", Bugs{ChildByMap: true}},
		{"the child of a split is taken for an orphan", Bugs{ChildIsOrphan: true}},
		{"the map is told of a split that no log has", Bugs{MapFirst: true}},
		{"a partition is merged before all its replicas are frozen", Bugs{EarlyReady: true}},
		{"a frozen replica is taken for an orphan", Bugs{FrozenIsOrphan: true}},
		{"the map is told of a merge that no log has", Bugs{MergeMapFirst: true}},
		{"each partition may take all of a throughput", Bugs{Undivided: true}},
		{"partitions have no bound until the records change", Bugs{LateBound: true}},
		{"what was merged is born again by the map", Bugs{RightByMap: true}},
		{"a request for items is sent again under another id", Bugs{DoubleItems: true}},
	} {
		t.Run(b.name, func(t *testing.T) {
			seeds.Find(t, b.name, func(seed uint64) bool { return finds(t, b.bugs, seed) })
		})
	}
}

// brings returns the faults that expose a bug. Additional faults would make these faults, and therefore the bug, rare.
func brings(b Bugs) Hardships {
	switch {
	case b.DoubleItems:
		return itemHardships
	case b.Undivided, b.LateBound:
		return spendingHardships
	case b.RefusalIsDeath:
		return Hardships{Refusals: true}
	case b.FarStamp, b.EarlySweep, b.SkewedLeader:
		return Hardships{Jumps: true, Mixed: true}
	case b.AnyLog, b.AnyCopy:
		return Hardships{Lost: true, RolledBack: true}
	case b.NoRequire:
		return Hardships{Batches: true, Schema: true}
	case b.RightByMap:
		return Hardships{Splits: true, Merges: true, StepFaults: true}
	case b.EarlyReady, b.FrozenIsOrphan, b.MergeMapFirst:
		return Hardships{Merges: true, Lost: true}
	case b.ChildByMap, b.ChildIsOrphan, b.MapFirst:
		return Hardships{Splits: true, Lost: true}
	}
	h := Usual
	h.Splits, h.Merges, h.Growth, h.StepFaults, h.MergeStress = false, false, false, false, false
	return h
}

// finds reports whether a seed finds planted bugs.
func finds(t *testing.T, bugs Bugs, seed uint64) bool {
	r := run(t, Scenario{Seed: seed, Bugs: bugs, With: brings(bugs)})
	if len(r.Failures) == 0 {
		return false
	}
	t.Logf("found with seed %d after %v: %s", seed, r.Duration, r.Failures[0])
	return true
}
