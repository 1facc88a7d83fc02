// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

var (
	seeds = flag.Int("sim.seeds", 0, "number of seeds of TestSeeds; 0 means 64 in a build with invariant checks, else 8")
	first = flag.Uint64("sim.seed", 1, "the first seed")
	most  = flag.Duration("sim.for", 0, "time after which TestSeeds starts no further seed; 0 for no limit")
	with  = flag.String("sim.with", "", "hardships in addition to the usual ones, such as Batches,Jumps")
	only  = flag.String("sim.only", "", "hardships instead of the usual ones")
	lines = flag.Bool("sim.v", false, "print one line for each fault and acknowledgement")
)

// run simulates a scenario. The Raft library draws election timeouts from crypto/rand, so run also seeds that
// generator.
func run(t *testing.T, p Scenario) *Report {
	t.Helper()
	cryptotest.SetGlobalRandom(t, p.Seed)
	defer simenv.Frugal()()
	p.Wait = synctest.Wait
	if *lines {
		p.Print = func(line string) { fmt.Println(line) }
	}
	var r *Report
	synctest.Test(t, func(*testing.T) { r = Run(p) })
	return r
}

// count returns the number of seeds that a test runs. The flag -sim.seeds sets the number. Without the flag, builds
// with invariant checks run many seeds, and other builds run few seeds.
func count(many, few int) int {
	switch {
	case *seeds > 0:
		return *seeds
	case invariant.Enabled:
		return many
	}
	return few
}

// eachSeed simulates count seeds and fails the test for each seed with a violation. eachSeed returns the number of
// seeds, the sum of their counts, and the number of unchecked keys.
func eachSeed(t *testing.T, many, few int, with Hardships) (n int, sum Counts, unchecked int) {
	t.Helper()
	n = count(many, few)
	for seed := *first; seed < *first+uint64(n); seed++ {
		r := run(t, Scenario{Seed: seed, With: with})
		if len(r.Failures) > 0 {
			t.Errorf("%v\nreproduce: go test ./test/sim -run %s -sim.seed=%d -sim.seeds=1 -sim.v", r, t.Name(), seed)
		}
		simenv.AddCounts(&sum, &r.Counts)
		unchecked += r.Unchecked
	}
	return n, sum, unchecked
}

// hardships returns the faults of -sim.only, or the usual faults plus the faults of -sim.with.
func hardships(t *testing.T) Hardships {
	h, names := Usual, *with
	if *only != "" {
		h, names = Hardships{}, *only
	}
	for name := range strings.SplitSeq(names, ",") {
		if f := reflect.ValueOf(&h).Elem().FieldByName(name); f.IsValid() {
			f.SetBool(true)
		} else if name != "" {
			t.Fatalf("unknown hardship %q", name)
		}
	}
	return h
}

// faultsLeast is the minimum average number of faults per seed. Dropped and delayed frames do not count.
const faultsLeast = 25

// TestSeeds checks that no seed finds a violation. Histories must be linearizable, replicas must be equal, and no
// acknowledged write may be lost. Run thousands of seeds with -sim.seeds=5000 -timeout=0.
func TestSeeds(t *testing.T) {
	n := count(64, 8)
	var sum Counts
	unchecked := 0
	began := time.Now()
	done := 0
	for seed := *first; seed < *first+uint64(n) && (*most == 0 || time.Since(began) < *most); seed++ {
		r := run(t, Scenario{Seed: seed, With: hardships(t)})
		if len(r.Failures) > 0 {
			t.Errorf("%v\nreproduce: go test ./test/sim -run TestSeeds -sim.seed=%d -sim.seeds=1 -sim.v", r, seed)
		}
		simenv.AddCounts(&sum, &r.Counts)
		unchecked += r.Unchecked
		if done++; done%100 == 0 {
			t.Logf("%d seeds up to %d, %.1f a second: %d operations, %d faults %+v", done, seed,
				float64(done)/time.Since(began).Seconds(),
				sum.Acked, sum.Sum(), sum.Faults)
		}
	}
	t.Logf("%d seeds in %v, %d faults: %+v, keys unchecked: %d", done, time.Since(began).Round(time.Millisecond),
		sum.Sum(), sum, unchecked)
	frames := sum.Dropped + sum.Delayed + sum.Breaks + sum.Flips + sum.Stalls
	each := float64(sum.Sum()-frames) / float64(max(done, 1))
	t.Logf("%.1f faults per seed, and %.1f dropped or delayed frames", each,
		float64(frames)/float64(max(done, 1)))
	if done >= 8 && each < faultsLeast {
		t.Errorf("%.1f faults per seed, want at least %d", each, faultsLeast)
	}
	if h := hardships(t); done >= 48 && h.Batches && (sum.Batches == 0 || sum.Replayed == 0) {
		t.Errorf("%d batches, %d replayed in %d seeds", sum.Batches, sum.Replayed, done)
	}
	if done >= 48 {
		for _, c := range []struct {
			what string
			n    int
		}{
			{"lost disks", sum.Wipes}, {"lost directories", sum.Lost}, {"rejected starts", sum.RefusedStarts},
			{"snapshots thrown away", sum.Discards}, {"unwanted snapshots", sum.Unwanted},
			{"splits by load", sum.LoadSplits}, {"splits around a hot key", sum.KeySplits},
			{"merges of quiet partitions", sum.AutoMerges},
			{"changes of tables whose partitions change", sum.ChangedAmid},
			{"canceled splits", sum.CanceledSplits}, {"merges whose keys were written to", sum.MergeStress},
		} {
			if c.n == 0 {
				t.Errorf("no %s in %d seeds: the simulation no longer tests it", c.what, done)
			}
		}
		sum.PartialCrashes.each(func(between string, n *int) {
			if *n == 0 {
				t.Errorf("no crash between %s in %d seeds: the simulation no longer tests it", between, done)
			}
		})
		sum.StepCrashes.each(func(step string, n *int) {
			if *n == 0 {
				t.Errorf("no crash at step %s in %d seeds: the simulation no longer tests it", step, done)
			}
		})
	}
	if done >= 150 && sum.RolledBack == 0 { // about one in twelve seeds rolls a directory back
		t.Errorf("no directories were rolled back in %d seeds: the simulation no longer tests it", done)
	}
	if done >= 8 {
		for _, c := range []struct {
			what string
			n    int
		}{
			{"acknowledged", sum.Acked}, {"index reads", sum.IndexReads}, {"crashes", sum.Crashes}, {"cuts", sum.Cuts},
			{"snapshots", sum.Snapshots}, {"truncations", sum.Truncations}, {"moves", sum.Moves},
			{"transfers", sum.Transfers},
			{"quiet groups", sum.Quiesced}, {"full disks", sum.FullDisks}, {"states compared", sum.Compared},
			{"refused connections", sum.Refused}, {"broken connections", sum.Breaks}, {"flipped bits", sum.Flips},
			{"stalled connections", sum.Stalls},
			{"follower reads", sum.FollowerReads},
			{"rejected connections", sum.Rejected}, {"orderly ends", sum.Departures},
			{"wrong clocks that were noticed", sum.Skewed},
			{"changes of the schema", sum.Changes}, {"indexes built", sum.Built}, {"searches by an index", sum.Finds},
			{"responses to followers that read at QUORUM", sum.IndexResponses}, {"sweeps", sum.Sweeps},
			{"changes of the records", sum.Updates}, {"scans", sum.Scans}, {"attempts on other nodes", sum.Forwarded},
			{"repeated attempts", sum.Repeats}, {"splits", sum.Divided},
			{"merges", sum.Merged}, {"canceled merges", sum.CanceledMerges},
			{"splits by size", sum.SizeSplits},
		} {
			if c.n == 0 {
				t.Errorf("no %s in %d seeds: the simulation no longer tests it", c.what, done)
			}
		}
	}
}

// TestSameSeedSameTrace checks that a seed always produces the same history, even in another process.
func TestSameSeedSameTrace(t *testing.T) {
	if os.Getenv("SIM_TRACE_OF") != "" {
		fmt.Printf("trace %016x\n", run(t, Scenario{Seed: 7, Length: 8 * time.Second, With: Usual}).Trace)
		return
	}
	want := run(t, Scenario{Seed: 7, Length: 8 * time.Second, With: Usual})
	again := run(t, Scenario{Seed: 7, Length: 8 * time.Second, With: Usual})
	if want.Trace != again.Trace {
		t.Fatalf("one process: %v\n%v", want, again)
	}
	if other := run(t, Scenario{Seed: 8, Length: 8 * time.Second, With: Usual}); other.Trace == want.Trace {
		t.Fatal("another seed has the same trace")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSameSeedSameTrace$")
	cmd.Env = append(os.Environ(), "SIM_TRACE_OF=7")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("trace %016x\n", want.Trace)) {
		t.Fatalf("another process: want %016x, %v:\n%s", want.Trace, err, out)
	}
}
