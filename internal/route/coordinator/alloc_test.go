// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// instant is a local or remote replica whose methods succeed immediately.
type instant struct{ *fake }

var unlimited partition.Throughput

func (instant) Throughput() *partition.Throughput { return &unlimited }

func (instant) Leading() bool                     { return true }
func (i instant) Leader() (topology.NodeID, bool) { return i.node, true }
func (instant) NoteAcknowledged(uint64)           {}

func (instant) Write(_ context.Context, _ *command.Mutation, done command.Completion) error {
	done.Done(command.Outcome{})
	return nil
}

func (instant) Read(context.Context, *command.Read, command.Visitor) error { return nil }

func (instant) ReadHere(context.Context, *command.Read, command.Visitor) error { return nil }

// TestClusterAllocations checks that the coordinator does not allocate memory for a write in a cluster, regardless of
// whether the leader is local. A read may allocate only one deadline. A forwarded read may also allocate the deadline
// for the first response.
func TestClusterAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	f := newFleet()
	c := f.join(t, mapOf(t, 4), Options{})
	one := instant{&fake{f, node(1), 0}}
	for _, here := range []bool{true, false} {
		var l Local
		if here {
			l = one
		}
		c.cluster.local = localReplicas(func(topology.PartitionID) Local { return l })
		c.cluster.Network = sameMember{one}
		for _, p := range c.Topology().Partitions(table) {
			c.LeaderChanged(p.ID, node(2))
		}
		ms := []command.Mutation{put("k", "c", 1)}
		if n := testing.AllocsPerRun(1000, func() { c.Write(t.Context(), ms, WriteOptions{}, nothing{}) }); n > 0 {
			t.Errorf("here %v: a write allocates %v times", here, n)
		}
		q := command.Read{Table: table, Key: []byte("k"), Token: token.Hash([]byte("k")), Level: dberr.Quorum}
		most := 6.0
		if !here {
			most = 13
		}
		if n := testing.AllocsPerRun(1000, func() {
			if err := c.Read(t.Context(), &q, blind{}); err != nil {
				t.Fatal(err)
			}
		}); n > most {
			t.Errorf("here %v: a read allocates %v times", here, n)
		}
	}
}

// BenchmarkClusterWrite measures the coordinator's CPU time for a write in a cluster.
func BenchmarkClusterWrite(b *testing.B) {
	f := newFleet()
	c := f.join(b, mapOf(b, 4), Options{})
	one := instant{&fake{f, node(1), 0}}
	c.cluster.local = localReplicas(func(topology.PartitionID) Local { return one })
	m := put("k", "c", 1)
	m.Ops[0].Operand = append(m.Ops[0].Operand, make([]byte, 1024)...)
	ms := []command.Mutation{m}
	b.ReportAllocs()
	for b.Loop() {
		c.Write(b.Context(), ms, WriteOptions{}, nothing{})
	}
}
