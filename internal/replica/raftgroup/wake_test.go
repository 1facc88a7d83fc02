// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// TestProposalsAreTaken checks that proposals that do not wake the loop are processed. Many clients must get their
// results, with a low limit of unapplied entries.
func TestProposalsAreTaken(t *testing.T) {
	c := newCluster(t, vfs.NewMem(), "d", 3, raftgroup.Options{AlwaysTick: true, UnappliedEntries: 1, UnappliedNode: 2})
	defer c.close()
	c.elect()
	var clients sync.WaitGroup
	for client := range 12 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(client), 1))
			waiter := make(done, 1)
			for range 200 {
				g := client % 3
				m := c.leader(g)
				if err := m.runner.Propose(m.groups[g], 0, command(r), waiter); err != nil {
					t.Error(err)
					return
				}
				if o := <-waiter; o.Err != nil {
					t.Error(o.Err)
					return
				}
			}
		})
	}
	clients.Wait()
}
