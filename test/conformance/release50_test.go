// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors holds, for each file of recordings of 5.0, how many of its steps agree at least. They only rise. They are
// slack below what agreed when they were written, because some steps are about seconds that pass.
const (
	floors = "testdata/50/floors.txt"
	slack  = 2
)

// open50 are the topics whose differences have no list: what they are about is being built.
var open50 = []string{"mv.jsonl", "sai.jsonl", "vector.jsonl"}

// TestRelease50 replays what was recorded from Cassandra 5.0.5, nothing left out, against a node that answers as 5.0
// does, and prints a table: the steps that agree, and all, of each topic. It fails if fewer agree than floors.txt says,
// and if a step differs, but in the topics of open50, without a reason in differences_50.txt that docs/compatibility.md
// explains. -differences prints every step that differs, -only chooses topics or tests, and -rewrite raises the floors
// and adds what differs to the list.
func TestRelease50(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("replays for about half a minute")
	}
	results := replayAll(t, []string{startGuarded(t, nil)}, recordings50(), 4, true)
	least := readFloors(t)
	known := readDifferences(t, "differences_50.txt")
	total, unexplained := result{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		if r.counted == 0 {
			continue
		}
		total.add(r)
		t.Logf("%-24s %5d of %5d steps agree (%.1f %%), at least %d", name, r.agreed, r.counted,
			100*float64(r.agreed)/float64(r.counted), least[name])
		if *only == "" && r.agreed < least[name] {
			t.Errorf("%s: %d steps agree, there were %d: -differences shows what differs", name, r.agreed, least[name])
		}
		for _, d := range r.differ {
			text := fmt.Sprintf("%s: %s\n    %s", d.where, shorten(d.cql), strings.Join(d.lines, "\n    "))
			if known[d.where] == "" && !slices.Contains(open50, name) {
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
	t.Logf("%d of %d steps agree (%.2f %%)", total.agreed, total.counted,
		100*float64(total.agreed)/float64(max(total.counted, 1)))
	if *rewrite && *only == "" {
		writeFloors(t, results, least)
		for _, name := range open50 {
			delete(results, name)
		}
		writeDifferences(t, "differences_50.txt", results, known)
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

// readFloors reads lines of the form `file steps`.
func readFloors(t *testing.T) map[string]int {
	text, err := os.ReadFile(floors)
	if err != nil {
		t.Fatal(err)
	}
	least := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err == nil && !strings.HasPrefix(line, "#") {
			least[name] = n
		}
	}
	return least
}

func writeFloors(t *testing.T, results map[string]*result, least map[string]int) {
	for name, r := range results {
		least[name] = max(least[name], r.agreed-slack)
	}
	var b strings.Builder
	b.WriteString("# Steps that agree at least, of each file of recordings of 5.0: see TestRelease50.\n")
	for _, name := range slices.Sorted(maps.Keys(least)) {
		fmt.Fprintf(&b, "%s %d\n", name, least[name])
	}
	if err := os.WriteFile(floors, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
