// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

const (
	// meetTime is the maximum wait for a change of the required kind.
	meetTime = 20 * time.Second
	// killPause is the maximum of the random pause between the detection of a change and the kill.
	killPause = 50 * time.Millisecond
)

// killer kills nodes while partitions split, merge, and move automatically.
type killer struct {
	l   *load
	rng *rand.Rand
	// met counts the kills by kind and phase.
	met map[string]int
}

// kill kills a node that takes part in a change of one of the kinds, and starts the node again. kill never kills the
// first node, because ilion bench is connected to that node. Before the kill, it moves the load's clients to other
// nodes. It does not move the clients of drivers.
func (k *killer) kill(phase string, kinds []string) {
	f := k.l.f
	f.t.Helper()
	kind := kinds[k.rng.IntN(len(kinds))]
	victim := f.nodes[1+k.rng.IntN(len(f.nodes)-1)]
	id := victim.id()
	k.l.only(f.without(victim)...)
	seen := "no change"
	_, missed := eventually.Try(meetTime, func() string {
		s, err := victim.status()
		if err != nil {
			return err.Error()
		}
		for i := range s.Changes {
			if c := &s.Changes[i]; c.Kind == kind && concerns(s, c, id) {
				seen = "a " + c.Kind
				return ""
			}
		}
		return "no " + kind
	})
	if missed == "" {
		time.Sleep(time.Duration(k.rng.Int64N(int64(killPause)))) // varies the progress of the change
	}
	k.met[fmt.Sprintf("%s: a node was killed while there was %s", phase, seen)]++
	k.l.mark("kill of " + victim.name())
	victim.kill()
	k.l.more(500)
	k.l.mark("start of " + victim.name())
	victim.start()
	f.acquaint()
	k.l.only(f.alive()...)
	k.l.more(1500)
}

// concerns reports whether a node has or will receive a replica of the partition that changes.
func concerns(s *admin.Status, c *admin.ChangeStatus, node string) bool {
	if c.From == node || c.To == node {
		return true
	}
	for _, t := range s.Tables {
		for _, p := range t.Partitions {
			if (p.ID == c.Partition || p.ID == c.Other) &&
				slices.ContainsFunc(p.Replicas, func(r admin.ReplicaStatus) bool { return r.Node == node }) {
				return true
			}
		}
	}
	return false
}
