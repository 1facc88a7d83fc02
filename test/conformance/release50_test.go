// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// slack is how many steps may differ without a reason: some are about seconds that pass.
	slack = 2
	// agree50 is the least share of all steps of 5.0 that must agree, in percent. 1.1 % of the steps differ in a
	// warning that Ilion has no reason to return: that views are experimental, and that a vector search is lowered to
	// ONE.
	agree50 = 97
	// sampled is which part of the tests a cluster replays if -stir does not ask for all.
	sampled = 12
)

// TestRelease50 replays what was recorded from Cassandra 5.0.5, nothing left out, against a node that answers as 5.0
// does, and prints a table: the steps that agree, and all, of each topic. It fails if a step differs without a reason
// in differences_50.txt that docs/compatibility.md explains. -differences prints every step that differs, -only chooses
// topics or tests, and -rewrite adds what differs to the list.
func TestRelease50(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("replays for about half a minute")
	}
	at := target{addrs: []string{startGuarded(t, nil)}}
	results := replayAll(t, at, recordings50(), extent{lanes: 4, whole: true})
	known := readDifferences(t, "differences_50.txt")
	report50(t, results, known, true)
	if *rewrite && *only == "" {
		writeDifferences(t, "differences_50.txt", results, known)
	}
}

// TestRelease50Cluster replays a part of the recordings of 5.0 against four nodes, each step of a session at the next
// one, while physical partitions split, merge and move between the steps. With -stir=SEED it is all of them.
func TestRelease50Cluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts four nodes")
	}
	seed, x := *stirBy, extent{lanes: 2, whole: true}
	if seed == 0 {
		seed, x.every = 1, sampled
	}
	known := readDifferences(t, "differences_50.txt")
	maps.Copy(known, readDifferences(t, "differences_50_cluster.txt"))
	report50(t, replayAll(t, startCluster(t, 4, "5.0", superusers(t), seed), recordings50(), x), known, x.every == 0)
}

// report50 prints how many steps of each topic agree, and fails for those that differ without a reason. Where all was
// replayed it fails, too, if they are few.
func report50(t *testing.T, results map[string]*result, known map[string]string, all bool) {
	t.Helper()
	total, unexplained := result{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		if r.counted == 0 {
			continue
		}
		total.add(r)
		t.Logf("%-24s %5d of %5d steps agree (%.1f %%)", name, r.agreed, r.counted,
			100*float64(r.agreed)/float64(r.counted))
		for _, d := range r.differ {
			text := fmt.Sprintf("%s: %s\n    %s", d.where, shorten(d.cql), strings.Join(d.lines, "\n    "))
			if known[d.where] == "" {
				unexplained = append(unexplained, text)
			}
			if *verbose {
				t.Logf("%s (%s)", text, known[d.where])
			}
		}
	}
	if len(unexplained) > slack && *only == "" {
		t.Errorf("%d steps differ without a reason in differences_50.txt:\n%s", len(unexplained),
			strings.Join(unexplained, "\n"))
	}
	t.Logf("%d of %d steps agree (%.2f %%), %d left out", total.agreed, total.counted,
		100*float64(total.agreed)/float64(max(total.counted, 1)), total.left)
	if all && total.agreed*100 < total.counted*agree50 && *only == "" {
		t.Errorf("%d of %d steps agree, fewer than %d %%", total.agreed, total.counted, agree50)
	}
}

// recordings50 lists the recordings of 5.0: the scenarios, and those of a public suite if they lie beside the
// repository.
func recordings50() []string {
	files, _ := filepath.Glob("testdata/50/*.jsonl")
	shared, _ := filepath.Glob("testdata/*50.jsonl")
	beside, _ := filepath.Glob(besideRepository() + "50/dev-*.jsonl")
	return slices.Concat(files, shared, beside)
}
