// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// TestLeaseEndsWithMembers checks that a change of members ends the lease, because the lease depends on a quorum of the
// old members. Data read under the old lease must not be served under the next lease.
func TestLeaseEndsWithMembers(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 1, raftgroup.Options{})
	b.run()
	b.read(g)
	b.run()
	token := g.Lease()
	if !g.Leased(token, b.now) {
		t.Fatal("no lease")
	}
	changed := &outcome{}
	learner := raftgroup.Member{Replica: 11, Node: nodeID(1)}
	b.host.ChangeMembers(1, []raftgroup.Change{{Member: learner, As: raftgroup.Learner}}, changed)
	b.run()
	if changed.calls != 1 || changed.Err != nil {
		t.Fatalf("%+v", changed)
	}
	if g.Leased(token, b.now) || g.Lease() != 0 {
		t.Error("the lease of the old members continues")
	}
	b.read(g)
	b.run()
	if !g.Leased(g.Lease(), b.now) {
		t.Error("no lease of the new members")
	}
	if g.Leased(token, b.now) {
		t.Error("data read under the old lease is served under the new lease")
	}
}
