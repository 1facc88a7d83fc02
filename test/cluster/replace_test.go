// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestWipe checks that a node with a wiped disk returns as a new node. The cluster must rebuild the old node's
// replicas on the new node, and the old node can then be removed.
func TestWipe(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "cluster:\n  rebuild_delay: 2s\n")
	l := startLoad(f, *clients, 0)
	l.more(*requests / 4)
	m := f.nodes[2]
	old := m.id()
	l.only(f.without(m)...)
	l.mark("kill of " + m.name())
	m.kill()
	m.wipe()
	l.mark("start on an empty disk")
	m.start()
	if m.id() == old {
		t.Error("the node on the new disk has the identity of the old one")
	}
	took := f.until("the replicas are rebuilt", settleTime, func() string { return f.remainingReplicas(old) })
	t.Logf("rebuilt %s after the start", took.Round(time.Millisecond))
	f.nodes[0].order("decommission", old)
	l.mark("decommission of the old identity")
	f.settle()
	l.only(f.alive()...)
	l.more(*requests / 4)
	l.finish()
}

// remainingReplicas names the replicas that remain on a node that must not have any.
func (f *fleet) remainingReplicas(id string) string {
	s, err := f.nodes[0].status()
	if err != nil {
		return err.Error()
	}
	for _, table := range s.Tables {
		for _, p := range table.Partitions {
			voters := 0
			for _, r := range p.Replicas {
				if r.Node == id {
					return fmt.Sprintf("%s has a replica on it, %s", table.Name, r.State)
				}
				if r.State == "voter" {
					voters++
				}
			}
			if voters != 4 {
				return fmt.Sprintf("%s has %d voters", table.Name, voters)
			}
		}
	}
	return ""
}

// TestDecommission checks that clients of the other nodes see no errors while one of five nodes is decommissioned.
func TestDecommission(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 5, "")
	l := startLoad(f, *clients, 0)
	m := f.leader("load.plain")
	l.only(f.without(m)...)
	l.more(*requests / 4)
	l.mark("decommission of " + m.name())
	id := m.id()
	began := time.Now()
	f.without(m)[0].order("decommission", id)
	f.until("the node has no replicas", settleTime, func() string {
		if f.nodes[0] == m {
			f.nodes[0], f.nodes[1] = f.nodes[1], f.nodes[0] // the request goes to a node that stays
		}
		return f.remainingReplicas(id)
	})
	t.Logf("all replicas were on other nodes after %s", time.Since(began).Round(time.Millisecond))
	select {
	case <-m.ended:
		if code := m.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the process exited with code %d: %s", code, m.lastLogLine())
		}
	case <-time.After(settleTime):
		t.Fatalf("the process still runs %s after its last replica was removed", settleTime)
	}
	l.mark("four nodes")
	f.settle()
	l.more(*requests / 4)
	l.finish()
}
