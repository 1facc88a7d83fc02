// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestDropBesideJoining checks that removing the remains of a replica does not affect the rows of a joining replica of
// the same table. During the installation of its first snapshot, the joining replica has rows in the store but no table
// yet.
func TestDropBesideJoining(t *testing.T) {
	b := newBench(t)
	goes, comes := half(false, 2), half(true, 2)
	b.entry(lower, 11, stamped(goes[0], 1, 100, 0), stamped(goes[1], 1, 101, 0))
	b.entry(upper, 11, stamped(comes[0], 1, 100, 0), stamped(comes[1], 1, 101, 0))
	b.commit()
	joining, err := newReplica(b.host, &replicaInit{id: topology.PartitionID(upper), replica: 77})
	if err != nil {
		t.Fatal(err)
	}
	gone := []*Replica{b.host.Replica(topology.PartitionID(lower))}
	if err := b.host.removeState(gone, map[topology.PartitionID]*Replica{joining.id: joining}); err != nil {
		t.Fatal(err)
	}
	if left, came := b.rows(goes...), b.rows(comes...); left != 0 || came != 2 {
		t.Errorf("%d rows of the replica that was dropped are left, %d of 2 of the other one", left, came)
	}
}
