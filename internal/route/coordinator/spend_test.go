// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestSpend checks that the price of an evaluation is charged to the local replica. If this node has no replica, the
// price must be paid exactly once, with the next successful read of the partition.
func TestSpend(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		key := []byte("k")
		spend := func(key []byte) { c.Spend(table, token.Hash([]byte("k")), key, fairshare.Principal{}, 5) }
		read := func() {
			t.Helper()
			if _, err := readNow(t.Context(), c, dberr.Quorum, "k"); err != nil {
				t.Error(err)
			}
		}
		f.here[1] = true
		spend(key)
		f.is(t, "spend 5 of 1 here")
		f.here[1] = false
		spend(key)
		spend(nil)
		c.Spend(table+100, token.Hash(key), key, fairshare.Principal{}, 5) // the table has been dropped
		read()
		f.is(t, "read(QUORUM), which pays 10, 1 at 2")
		read()
		f.is(t, "read(QUORUM) 1 at 2")
		spend(key)
		f.script = func(a *asked) *verdict {
			if a.n == 0 {
				return &verdict{err: dberr.Serverf("it failed")}
			}
			return nil
		}
		if _, err := readNow(t.Context(), c, dberr.Quorum, "k"); err == nil {
			t.Error("the read does not fail")
		}
		f.is(t, "read(QUORUM), which pays 5, 1 at 2")
		f.script = nil
		read()
		f.is(t, "read(QUORUM), which pays 5, 1 at 2")
	})
	var d debts
	for i := range topology.PartitionID(2 * debtsMax) {
		d.add(i+1, 1)
	}
	if len(d.of) != debtsMax || d.take(2*debtsMax) != 1 || d.take(2*debtsMax) != 0 {
		t.Errorf("%d partitions are owed something", len(d.of))
	}
}
