// SPDX-License-Identifier: Apache-2.0

// Package planted searches for a seed that finds a planted bug. It first tries the seed that last found the bug. If
// the random draws of the simulator have changed, that seed may be useless. The package then tries all seeds, which
// takes minutes for many bugs. It stores the seeds in the simulator's file testdata/found.txt. The following command
// replaces the seeds that no longer find their bug:
//
//	go test -tags invariants -timeout 0 ./test/sim ./test/sim/groups -run Found -rewrite
package planted

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	within  = flag.Uint64("sim.within", 200, "number of seeds in which a planted bug must be found")
	rewrite = flag.Bool("rewrite", false, "write the seeds that find planted bugs to "+file)
)

const file = "testdata/found.txt"

// Within returns the number of seeds that may be tried for a bug.
func Within() uint64 { return *within }

// Seeds maps the names of bugs to the seeds that find them.
type Seeds map[string]uint64

// Read returns the seeds of the package under test. With -rewrite, it writes them back when the test ends.
func Read(t *testing.T) Seeds {
	t.Helper()
	s := Seeds{}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var seed uint64
		text, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		s[name] = seed
	}
	if *rewrite {
		t.Cleanup(func() { s.write(t) })
	}
	return s
}

func (s Seeds) write(t *testing.T) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintln(&b, s[name], name)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}

// Find fails the test if no seed finds the named bug. finds reports whether a seed finds the bug.
func (s Seeds) Find(t *testing.T, name string, finds func(seed uint64) bool) {
	t.Helper()
	seed := s[name]
	if seed != 0 && finds(seed) {
		return
	}
	for other := uint64(1); other <= *within; other++ {
		if other == seed || !finds(other) {
			continue
		}
		t.Logf("found by seed %d, but no longer by %d: run with -rewrite", other, seed)
		s[name] = other
		return
	}
	t.Errorf("not found in %d seeds", *within)
}
