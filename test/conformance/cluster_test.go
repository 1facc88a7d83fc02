// SPDX-License-Identifier: Apache-2.0

//go:build integration

package conformance

import (
	"maps"
	"testing"
)

// sampled determines the part of the recordings that a cluster replays without -stir. The cluster replays one in
// sampled tests.
const sampled = 12

// TestCluster replays the scenarios on four nodes and checks that every node responds like a standalone node. To
// replay all recordings on a cluster, run TestConformance with -nodes=4.
func TestCluster(t *testing.T) {
	t.Parallel()
	if *against != "" || *cluster > 1 {
		t.Skip("TestConformance does it")
	}
	known := readDifferences(t, "differences.txt")
	maps.Copy(known, readDifferences(t, "differences_cluster.txt"))
	at := startCluster(t, 4, "4.0", nil, *stirBy)
	report(t, replayAll(t, at, []string{"testdata/scenarios.jsonl"}, extent{lanes: 4}), known, shares{95, 90})
}

// TestRelease50Cluster replays part of the recordings of 5.0 on four nodes while physical partitions split, merge, and
// move between the steps. Each step of a session goes to the next node. With -stir=SEED, it replays all recordings.
func TestRelease50Cluster(t *testing.T) {
	t.Parallel()
	seed, x := *stirBy, extent{lanes: 2, whole: true}
	if seed == 0 {
		seed, x.every = 1, sampled
	}
	known := readDifferences(t, "differences_50.txt")
	maps.Copy(known, readDifferences(t, "differences_50_cluster.txt"))
	report50(t, replayAll(t, startCluster(t, 4, "5.0", superusers(t), seed), recordings50(), x), known, x.every == 0)
}
