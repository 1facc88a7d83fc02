// SPDX-License-Identifier: Apache-2.0

package testnode

import (
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

// Settle waits until the running nodes of the cluster are settled.
func (c *Cluster) Settle() {
	c.t.Helper()
	eventually.None(c.t, "the cluster settles", settleTime, c.unsettled)
}

// unsettled returns the reason why the cluster is not settled, or "".
func (c *Cluster) unsettled() string {
	want := 1
	switch {
	case len(c.nodes) >= replicas:
		want = replicas
	case len(c.nodes) >= smallSet:
		want = smallSet
	}
	schemas := map[string]bool{}
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		if err := n.Err(); err != nil {
			c.t.Fatalf("node %d failed: %v", i, err)
		}
		s, err := c.status(i)
		if err != nil {
			return fmt.Sprintf("node %d: %v", i, err)
		}
		if why := c.look(s, want); why != "" {
			return fmt.Sprintf("node %d: %s", i, why)
		}
		schemas[s.Schema] = true
	}
	if len(schemas) > 1 {
		return fmt.Sprintf("%d versions of the schema", len(schemas))
	}
	return ""
}

// look returns the reason why the status of a node is not settled, or "".
func (c *Cluster) look(s *admin.Status, want int) string {
	up, led := 0, 0
	for _, n := range s.Nodes {
		if n.State == "up" {
			up++
		}
		led += n.Leading
	}
	running := 0
	for _, n := range c.nodes {
		if n != nil {
			running++
		}
	}
	if up != running {
		return fmt.Sprintf("%d of %d nodes are up", up, running)
	}
	if running < len(c.nodes) {
		return "" // accept incomplete replica sets whose missing members must not be replaced yet
	}
	sets := 1 // start with the meta partition
	for _, t := range s.Tables {
		for _, p := range t.Partitions {
			sets++
			voters := 0
			for _, r := range p.Replicas {
				if r.State != "voter" {
					return fmt.Sprintf("a replica of partition %d of %s is %s", p.ID, t.Name, r.State)
				}
				voters++
			}
			if voters != want {
				return fmt.Sprintf("partition %d of %s has %d voters of %d", p.ID, t.Name, voters, want)
			}
		}
	}
	for _, problem := range s.Problems {
		if want == replicas && strings.Contains(problem, "partition") {
			return problem
		}
	}
	if led < sets {
		return fmt.Sprintf("%d of %d partitions have a leader", led, sets)
	}
	return ""
}
