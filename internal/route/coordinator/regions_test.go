// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestHomeSet checks that commands go to the voters of the home region and need a quorum of these voters. The nodes of
// other regions must not count, even if the first replica set of the partition is in another region.
func TestHomeSet(t *testing.T) {
	away := topology.Place{Region: "eu", Nodes: []topology.NodeID{node(11)}}
	home := topology.Place{Region: "us", Nodes: []topology.NodeID{node(2), node(3), node(4), node(5)}}
	s, err := topology.New().AddMeta([]topology.Place{home})
	if err == nil {
		s, err = s.AddTable(table, 1, []topology.Place{away, home})
	}
	if err == nil {
		s, err = s.AddTable(batchTable, 1, []topology.Place{home})
	}
	if err != nil {
		t.Fatal(err)
	}
	id := s.Partitions(table)[0].ID
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.leader[id] = node(4)
		c := f.join(t, s, Options{})
		defer c.Close()
		if err := writeNow(c, WriteOptions{}, put("k", "c", 1)); err != nil {
			t.Error(err)
		}
		if slices.ContainsFunc(f.log, func(line string) bool { return line == "write 1 at 11" }) {
			t.Errorf("the node of another region was asked: %q", f.log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.down[node(2)], f.down[node(3)] = true, true
		c := f.join(t, s, Options{})
		defer c.Close()
		err := writeNow(c, WriteOptions{Level: dberr.Quorum}, put("k", "c", 1))
		if e, ok := errors.AsType[*dberr.Unavailable](err); !ok || e.Required != 3 || e.Alive != 2 {
			t.Errorf("with two of four voters: %v", err)
		}
		_, err = readNow(t.Context(), c, dberr.One, "k")
		if e, ok := errors.AsType[*dberr.Unavailable](err); !ok || e.Alive != 0 {
			t.Errorf("a read at ONE with two of four voters: %v", err)
		}
	})
}
