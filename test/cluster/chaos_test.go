// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

var (
	faults    = flag.Int("faults", 6, "faults of TestChaos")
	chaosSeed = flag.Uint64("seed", 0, "seed of the faults of TestChaos; 0 chooses a random seed")
)

// TestChaos checks that clients never receive a wrong result while nodes are killed, stopped, and paused. Faults
// affect one, two, or all nodes at the same time. Clients use all nodes. Requests may be rejected or time out.
func TestChaos(t *testing.T) {
	onlyLong(t)
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	l.tolerate(true)
	for range *faults {
		l.more(*requests / 20)
		victims := make([]*member, 0, 4)
		for _, i := range rng.Perm(4)[:[]int{1, 1, 1, 2, 4}[rng.IntN(5)]] {
			victims = append(victims, f.nodes[i])
		}
		what := rng.IntN(4)
		away := time.Duration(rng.Int64N(int64(3 * time.Second)))
		l.mark(fmt.Sprintf("%s of %d nodes for %s", []string{"kill", "stop", "pause", "stutter"}[what], len(victims),
			away.Round(time.Millisecond)))
		for _, m := range victims {
			injectFault(m, what)
		}
		if what == 3 { // other nodes may consider a repeatedly paused node alive or dead
			for range 10 {
				l.lasts(away / 20)
				for _, m := range victims {
					m.signal(syscall.SIGCONT)
				}
				l.lasts(away / 20)
				for _, m := range victims {
					m.signal(syscall.SIGSTOP)
				}
			}
		} else {
			l.lasts(away)
		}
		for _, m := range victims {
			if what >= 2 {
				m.signal(syscall.SIGCONT)
				continue
			}
			ready := m.launch(append([]string{"--internal", m.inner()}, m.args...)...)
			f.t.Cleanup(m.kill)
			if len(victims) < 4 {
				if err := <-ready; err != nil {
					t.Fatal(err)
				}
			}
		}
		f.settle()
	}
	l.only(f.nodes[0]) // wait for earlier requests
	l.only(f.alive()...)
	l.tolerate(false)
	l.mark("no more faults")
	l.more(*requests / 4)
	l.finish()
}

// injectFault injects a fault.
func injectFault(m *member, what int) {
	m.f.t.Helper()
	switch what {
	case 0:
		m.kill()
	case 1:
		m.stop()
	default:
		m.signal(syscall.SIGSTOP)
	}
}
