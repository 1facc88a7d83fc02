// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestTakenBackAlone records a split and a merge on a single node, and cancels them before they run. The table must
// not change, even if the process ends after the cancellation is recorded. Later, the partitions must split and merge
// normally.
func TestTakenBackAlone(t *testing.T) {
	const rows = 200
	dir := t.TempDir()
	n := startNode(t, Options{Data: dir, InitialPartitions: 4})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	for i := range rows {
		c.execute(insert, number(i), number(i))
	}
	id := n.catalog.Snapshot().Keyspaces["ks"].Tables["t"].ID
	parts := func() []*topology.Partition { return n.metadata.State().Topology.Partitions(id) }
	check := func(when string, want, abandoned int) {
		t.Helper()
		found := 0
		for _, e := range n.metadata.State().History {
			if e.Abandoned {
				found++
			}
		}
		got := newClient(t, n).query("SELECT k FROM ks.t").RowCount
		if got != rows || len(parts()) != want || found != abandoned {
			t.Errorf("%s: %d rows in %d partitions, %d canceled requests", when, got, len(parts()), found)
		}
		for _, p := range parts() {
			if p.Split != nil || p.Merge != nil {
				t.Errorf("%s: partition %d is still being changed: %+v", when, p.ID, p)
			}
		}
	}
	ps := parts()
	cut := split.Request{Table: id, Partition: ps[0].ID, At: ps[0].Span.Limit, SkipCooldown: true,
		Level: n.store.Level()}
	cut.At.Ring /= 2
	join := merge.Request{Table: id, First: ps[2].ID, Second: ps[3].ID, SkipCooldown: true, Level: n.store.Level()}
	recordSplit := func() error {
		_, err := n.metadata.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
			return cut.Apply(s, time.Now())
		})
		return err
	}
	recordMerge := func() error {
		_, err := n.metadata.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
			next, _, err := join.Apply(s, time.Now())
			return next, err
		})
		return err
	}
	for _, c := range []struct {
		record func() error
		p      *topology.Partition
		want   string
	}{
		{recordSplit, ps[0], "the split of partition"}, {recordMerge, ps[3], "the merge of partitions"},
		{nil, ps[0], "no pending change"},
	} {
		if c.record != nil {
			if err := c.record(); err != nil {
				t.Fatal(err)
			}
		}
		said, err := n.partitions.Cancel(t.Context(), operations.Cancel{Table: "ks.t", Partition: uint64(c.p.ID)})
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, c.want) || (err == nil) != strings.HasSuffix(said, "was canceled") {
			t.Errorf("%s, %v", said, err)
		}
	}
	check("taken back at once", 4, 2)

	if err := errors.Join(recordSplit(), recordMerge()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.metadata.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
		m, err := s.Topology.CancelSplit(ps[0].ID)
		if err == nil {
			m, err = m.CancelMerge(ps[2].ID)
		}
		return s.WithTopology(m), err
	}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, Options{Data: dir})
	check("taken back before the end of the process", 4, 4)

	ps = parts()
	if said, err := n.partitions.Split(t.Context(), operations.Split{Table: "ks.t", Partition: uint64(ps[0].ID),
		Now: true}); err != nil {
		t.Fatal(said, err)
	}
	o := operations.Merge{Table: "ks.t", Partitions: [2]uint64{uint64(ps[2].ID), uint64(ps[3].ID)}, Now: true}
	if said, err := n.partitions.Merge(t.Context(), o); err != nil {
		t.Fatal(said, err)
	}
	check("split and merged later", 4, 4)
}
