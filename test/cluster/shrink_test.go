// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestShrink checks that a table in a cluster of processes splits by size and by request. The table must return to one
// partition when its rows are deleted. During that time, a checked load must run without errors. The history must
// contain the causes of all changes.
func TestShrink(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 3, "splits:\n  storage_cap: 1000000\n  request_units_per_second: -1\n"+
		"merges:\n  idle_period: 200ms\n")
	l := startLoad(f, 4, 0)
	f.nodes[0].do("CREATE TABLE load.grown (k bigint PRIMARY KEY, v blob) WITH gc_grace_seconds = 1")
	f.settle()
	const table = "load.grown"
	const rows = int64(2500)
	s := session(f, nil)
	for k := range rows {
		if err := s.Query("INSERT INTO load.grown (k, v) VALUES (?, ?)", k, payload(k)).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	f.until("the table has split by its size", 2*time.Minute, func() string {
		if len(f.nodes[0].partitionsOf(table)) == 1 {
			return "one partition"
		}
		return ""
	})
	for _, p := range f.nodes[0].partitionsOf(table) {
		if err := f.nodes[0].trySplit(table, p.ID); err != nil {
			t.Log(err) // a split is in progress
		}
	}
	l.mark("deletes")
	for k := range rows {
		if err := s.Query("DELETE FROM load.grown WHERE k = ?", k).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	f.until("the table is one partition again", 5*time.Minute, func() string {
		if ps := f.nodes[0].partitionsOf(table); len(ps) > 1 {
			return fmt.Sprintf("%d partitions", len(ps))
		}
		return ""
	})
	l.more(100)
	ended := map[string]int{}
	for _, c := range f.nodes[0].history() {
		if c.Table == table {
			ended[c.Kind+" by "+c.Cause+" "+c.Outcome]++
		}
	}
	t.Log(ended)
	if ended["split by size done"] == 0 || ended["merge by size done"]+ended["merge by load done"] == 0 {
		t.Errorf("the history contains %v", ended)
	}
	l.finish()
}
