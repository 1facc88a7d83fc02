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
	// slack is the number of steps that may differ without a documented reason. Some steps depend on elapsed seconds.
	slack = 2
	// agree50 is the minimum percentage of matching steps of 5.0. In addition, 1.1% of the steps differ in a warning
	// that does not apply to Ilion. The warning states that views are experimental, or that the consistency of a
	// vector search is lowered to ONE.
	agree50 = 97
)

// TestRelease50 replays all recordings from Cassandra 5.0.5 on a node with the behavior of 5.0. It prints a table of
// the matching steps and of all steps by topic. The test fails if a step differs and differences_50.txt does not list
// a reason from docs/compatibility.md. The flag -differences prints every step that differs. The flag -only selects
// topics or tests, and -rewrite adds new differences to the list.
func TestRelease50(t *testing.T) {
	t.Parallel()
	at := target{addrs: []string{startGuarded(t, nil)}}
	results := replayAll(t, at, recordings50(), extent{lanes: 4, whole: true})
	known := readDifferences(t, "differences_50.txt")
	report50(t, results, known, true)
	if *rewrite && *only == "" {
		writeDifferences(t, "differences_50.txt", results, known)
	}
}

// report50 prints the number of matching steps of each topic, and fails for steps that differ without a documented
// reason. After a full replay, it also fails if too few steps match.
func report50(t *testing.T, results map[string]*result, known map[string]string, all bool) {
	t.Helper()
	total, unexplained := result{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		if r.counted == 0 {
			continue
		}
		total.add(r)
		t.Logf("%-24s %5d of %5d steps match (%.1f %%)", name, r.agreed, r.counted,
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
	t.Logf("%d of %d steps match (%.2f %%), %d skipped", total.agreed, total.counted,
		100*float64(total.agreed)/float64(max(total.counted, 1)), total.left)
	if all && total.agreed*100 < total.counted*agree50 && *only == "" {
		t.Errorf("%d of %d steps match, want at least %d %%", total.agreed, total.counted, agree50)
	}
}

// recordings50 lists the scenarios of 5.0. It also lists the recordings of a public suite if they are available.
func recordings50() []string {
	files, _ := filepath.Glob("testdata/50/*.jsonl")
	shared, _ := filepath.Glob("testdata/*50.jsonl")
	beside, _ := filepath.Glob(besideRepository() + "50/dev-*.jsonl")
	return slices.Concat(files, shared, beside)
}
