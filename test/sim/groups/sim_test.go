// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
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
	lines = flag.Bool("sim.v", false, "print one line for each fault and acknowledgement")
)

// run simulates a plan. The Raft library draws election timeouts from crypto/rand, so run also seeds that generator.
func run(t *testing.T, p Plan) *Report {
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

// TestSeeds checks that no seed finds a violation. Histories must be linearizable, replicas must be equal, and no
// acknowledged write may be lost. Run thousands of seeds with -sim.seeds=5000 -timeout=0.
func TestSeeds(t *testing.T) {
	n := *seeds
	if n == 0 {
		if n = 64; !invariant.Enabled {
			n = 8
		}
	}
	var sum Counts
	unchecked := 0
	began := time.Now()
	for seed := *first; seed < *first+uint64(n); seed++ {
		r := run(t, Plan{Seed: seed})
		if len(r.Failures) > 0 {
			t.Errorf("%v\nreproduce: go test ./test/sim/groups -run TestSeeds -sim.seed=%d -sim.seeds=1 -sim.v", r,
				seed)
		}
		simenv.AddCounts(&sum, &r.Counts)
		unchecked += r.Unchecked
	}
	t.Logf("%d seeds in %v: %+v, keys unchecked: %d", n, time.Since(began).Round(time.Millisecond), sum, unchecked)
	if n >= 500 && sum.Discards == 0 {
		t.Errorf("no snapshots were discarded in %d seeds", n)
	}
	if n >= 64 {
		for _, c := range []struct {
			what string
			n    int
		}{
			{"proposals that outlive their leader", sum.Inherited}, {"proposals that are replaced", sum.Replaced},
			{"late offers of leadership", sum.LateOffers}, {"lost offers of leadership", sum.LostOffers},
			{"two simultaneous starts", sum.DoubleStarts},
			{"unwanted snapshots", sum.Unwanted},
		} {
			if c.n == 0 {
				t.Errorf("no %s in %d seeds: the simulation no longer tests it", c.what, n)
			}
		}
	}
	if n >= 8 {
		for _, c := range []struct {
			what string
			n    int
		}{
			{"acknowledged", sum.Acked}, {"lease reads", sum.LeaseReads}, {"index reads", sum.IndexReads},
			{"crashes", sum.Crashes}, {"cuts", sum.Cuts},
			{"snapshots", sum.Snapshots}, {"truncations", sum.Truncations}, {"moves", sum.Moves},
			{"transfers", sum.Transfers},
			{"quiet groups", sum.Quiesced}, {"full disks", sum.FullDisks}, {"states compared", sum.Compared},
			{"refused connections", sum.Refused},
			{"follower reads", sum.FollowerReads}, {"reads on followers that asked their leader", sum.AskedReads},
			{"connections refused by running nodes", sum.Resets}, {"departures", sum.Departures},
		} {
			if c.n == 0 {
				t.Errorf("no %s in %d seeds: the simulation no longer tests it", c.what, n)
			}
		}
	}
}

// TestChangesCrash checks the same properties while voters crash during membership changes. Some voters must start
// with two unapplied membership changes in their log.
func TestChangesCrash(t *testing.T) {
	pairs := 0
	for seed := uint64(1); seed <= 8; seed++ {
		r := run(t, Plan{Seed: seed, ChangeCrashes: true})
		if len(r.Failures) > 0 {
			t.Errorf("%v", r)
		}
		pairs += r.Counts.ChangesInLog
	}
	if pairs == 0 {
		t.Error("no process starts with two changes in its log: the simulation no longer tests it")
	}
}

// TestSameSeedSameTrace checks that a seed always produces the same history, even in another process.
func TestSameSeedSameTrace(t *testing.T) {
	if os.Getenv("SIM_TRACE_OF") != "" {
		fmt.Printf("trace %016x\n", run(t, Plan{Seed: 7, Length: 8 * time.Second}).Trace)
		return
	}
	want := run(t, Plan{Seed: 7, Length: 8 * time.Second})
	again := run(t, Plan{Seed: 7, Length: 8 * time.Second})
	if want.Trace != again.Trace {
		t.Fatalf("one process: %v\n%v", want, again)
	}
	if other := run(t, Plan{Seed: 8, Length: 8 * time.Second}); other.Trace == want.Trace {
		t.Fatal("another seed has the same trace")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSameSeedSameTrace$")
	cmd.Env = append(os.Environ(), "SIM_TRACE_OF=7")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("trace %016x\n", want.Trace)) {
		t.Fatalf("another process: want %016x, %v:\n%s", want.Trace, err, out)
	}
}
