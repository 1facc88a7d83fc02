// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// partitionsOf returns the physical partitions of a table according to a node.
func (m *member) partitionsOf(table string) []admin.PartitionStatus {
	m.f.t.Helper()
	s, err := m.status()
	if err != nil {
		m.f.t.Fatal(err)
	}
	for _, t := range s.Tables {
		if t.Name == table {
			return t.Partitions
		}
	}
	m.f.t.Fatalf("%s does not know table %s", m.name(), table)
	return nil
}

// split requests a split of a partition in the middle of its rows.
func (m *member) split(table string, id uint64, more string) {
	m.f.t.Helper()
	process.Order(m.f.t, m.dir, splitOrder(table, id)+more)
}

// trySplit works like split for a request that may be rejected.
func (m *member) trySplit(table string, id uint64) error {
	return process.TryOrder(m.dir, splitOrder(table, id))
}

func splitOrder(table string, id uint64) string {
	return fmt.Sprintf("/partition/split?table=%s&partition=%d&now=true", url.QueryEscape(table), id)
}

// TestSplitByHand checks that clients see no errors and that no data is lost or duplicated while tables split. One
// table splits into eight partitions. A leader is killed between the order and the split.
func TestSplitByHand(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	l.more(*requests / 16)
	for _, table := range []string{"load.registers", "load.counters", "load.lists", "load.batch_a"} {
		l.mark("split of " + table)
		a := f.nodes[0]
		a.split(table, a.partitionsOf(table)[0].ID, "&wait=true")
	}
	const table = "load.plain"
	for round := range 3 {
		m := f.leader(table)
		if round == 1 {
			l.only(f.without(m)...)
			l.more(*requests / 64)
		}
		orderer := f.without(m)[0]
		for i, p := range orderer.partitionsOf(table) {
			l.mark(fmt.Sprintf("split of partition %d of %s", p.ID, table))
			if round != 1 || i > 0 {
				orderer.split(table, p.ID, "&wait=true")
				continue
			}
			orderer.split(table, p.ID, "")
			l.mark("kill of " + m.name())
			m.kill()
		}
		l.more(*requests / 16)
		if round == 1 {
			l.mark("start of " + m.name())
			m.start()
			f.settle()
			l.only(f.alive()...)
		}
	}
	f.settle()
	l.mark("all is split")
	l.more(*requests / 8)
	for _, m := range f.nodes {
		f.until(m.name()+" has the map", eventually.Limit, func() string {
			if n := len(m.partitionsOf(table)); n != 8 {
				return fmt.Sprintf("%d partitions", n)
			}
			return ""
		})
	}
	l.finish()
}
