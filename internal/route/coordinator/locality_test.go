// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestLocalReads checks which reads a node serves locally. A node with a follower must serve reads at a consistency
// level of one replica, and a leader must serve all reads.
func TestLocalReads(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet, c *Coordinator) {
		levels := []dberr.Consistency{dberr.One, dberr.LocalOne, dberr.Quorum, dberr.LocalQuorum, dberr.Serial,
			dberr.All}
		for _, test := range []struct {
			name        string
			here, leads bool
			one, others bool
		}{{"no replica", false, false, false, false}, {"a follower", true, false, true, false},
			{"the leader", true, true, true, true}} {
			f.here[1], f.leader[1] = test.here, node(2)
			if test.leads {
				f.leader[1] = node(1)
			}
			for _, level := range levels {
				want := test.others
				if level.OneReplica() {
					want = test.one
				}
				near := c.ServesLocally(table, token.Hash([]byte("k")), level, fairshare.Principal{})
				if near != want {
					t.Errorf("%s at %s: %v", test.name, level, near)
				}
				before := c.Stats().Forwarded
				f.script = func(a *asked) *verdict {
					if near && a.node != node(1) {
						t.Errorf("%s at %s: asked %v", test.name, level, a.node)
					}
					return &verdict{}
				}
				if _, err := readNow(t.Context(), c, level, "k"); err != nil {
					t.Error(err)
				}
				if forwarded := c.Stats().Forwarded > before; forwarded == near {
					t.Errorf("%s at %s: near %v, forwarded %v", test.name, level, near, forwarded)
				}
			}
		}
		if !c.ServesLocally(table+50, 1, dberr.Quorum, fairshare.Principal{}) {
			t.Error("a missing table is searched on other nodes")
		}
	})
}
