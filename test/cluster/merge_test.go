// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// merge requests the merge of two neighbors.
func (m *member) merge(table string, first, second uint64, more string) {
	m.f.t.Helper()
	process.Order(m.f.t, m.dir, fmt.Sprintf("/partition/merge?table=%s&partition=%d&with=%d&now=true%s",
		url.QueryEscape(table), first, second, more))
}

// TestMergeByHand checks that partitions that had split can merge again. Clients must see no errors, and no data may
// be lost or duplicated. One leader is killed after the request.
func TestMergeByHand(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	l := startLoad(f, *clients, 0)
	l.more(*requests / 16)
	tables := []string{"load.registers", "load.counters", "load.plain"}
	for _, table := range tables {
		a := f.nodes[0]
		l.mark("split of " + table)
		a.split(table, a.partitionsOf(table)[0].ID, "&wait=true")
	}
	l.more(*requests / 16)
	for i, table := range tables {
		m := f.leader(table)
		if i == 2 {
			l.only(f.without(m)...)
			l.more(*requests / 64)
		}
		orderer := f.without(m)[0]
		ps := orderer.partitionsOf(table)
		l.mark("merge in " + table)
		if i < 2 {
			orderer.merge(table, ps[0].ID, ps[1].ID, "&wait=true")
			l.more(*requests / 16)
			continue
		}
		orderer.merge(table, ps[0].ID, ps[1].ID, "")
		l.mark("kill of " + m.name())
		m.kill()
		l.more(*requests / 16)
		l.mark("start of " + m.name())
		m.start()
		f.settle()
		l.only(f.alive()...)
		l.more(*requests / 16)
	}
	f.settle()
	for _, m := range f.nodes { // the last merge was completed or canceled
		f.until(m.name()+" has no merge in progress", eventually.Limit, func() string {
			for _, table := range tables {
				for _, p := range m.partitionsOf(table) {
					if p.MergesInto != 0 {
						return fmt.Sprintf("partition %d is %s", p.ID, p.MergeStage)
					}
				}
			}
			return ""
		})
	}
	l.finish()
}
