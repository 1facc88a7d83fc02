// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/memnet"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// raftNode is a node with real components except for its network.
type raftNode struct {
	name   string
	log    *raftlog.Store
	store  *ledger.Store
	net    *transport.Transport
	runner *raftgroup.Runner
	groups []*raftgroup.Group
}

// tick is the unit of time of the nodes.
const tick = 50 * time.Millisecond

func raftID(i int) raftgroup.NodeID { return raftgroup.NodeID{byte(i + 1)} }

// startRaft starts count nodes with a number of groups. The first nodes are the voters of the groups.
func startRaft(t *testing.T, count, voters, groups int, o raftgroup.Options) []*raftNode {
	t.Helper()
	n := memnet.New()
	nodes := make([]*raftNode, count)
	for i := range nodes {
		nodes[i] = &raftNode{name: fmt.Sprintf("host%d", i)}
	}
	for i, m := range nodes {
		m.open(t, n, i, voters, groups, o)
	}
	for i, m := range nodes {
		for j, to := range nodes {
			if i != j {
				m.net.SetAddress(transport.NodeID(raftID(j)), to.name)
			}
		}
		m.runner.Start()
	}
	t.Cleanup(func() {
		for _, m := range nodes {
			if err := m.runner.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, m := range nodes {
			m.net.Close()
			if k := m.store.Kept(); k != 0 {
				t.Errorf("%s: %d snapshots are kept", m.name, k)
			}
			m.log.Close()
			m.store.Close()
		}
	})
	return nodes
}

func (m *raftNode) open(t *testing.T, n *memnet.Network, i, voters, groups int, o raftgroup.Options) {
	t.Helper()
	var err error
	fs := vfs.NewMem()
	if m.log, err = raftlog.Open("log", raftlog.Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	if m.store, err = ledger.Open("rows", fs, 8<<20); err != nil {
		t.Fatal(err)
	}
	// No other node may campaign because the machine is busy.
	o.Node, o.Tick, o.ElectionTicks = raftID(i), tick, int(eventually.Limit/tick)
	host := raftgroup.NewHost(m.log, m.log.NewBatch(), o)
	var configs []raftgroup.GroupConfig
	for g := range uint64(groups) {
		k := raftgroup.GroupConfig{ID: g + 1, Replica: (g+1)*10 + uint64(i), Conf: &pb.ConfState{}}
		if i < voters {
			k.Applied, k.Term, k.Initial, k.Fresh = 10, 5, true, true
			for v := range voters {
				k.Conf.Voters = append(k.Conf.Voters, (g+1)*10+uint64(v))
				k.Where = append(k.Where, raftgroup.Member{Replica: (g+1)*10 + uint64(v), Node: raftID(v)})
			}
		}
		meta := ledger.Meta{Replica: k.Replica, Applied: k.Applied, Term: k.Term, Conf: k.Conf,
			Where: raftgroup.EncodeMembers(nil, k.Where)}
		if err := m.store.Create(k.ID, meta); err != nil {
			t.Fatal(err)
		}
		configs = append(configs, k)
	}
	if m.groups, err = host.Open(configs...); err != nil {
		t.Fatal(err)
	}
	self := transport.Self{Cluster: transport.ClusterID{1}, Node: transport.NodeID(raftID(i)), Address: m.name}
	if m.net, err = transport.New(self, n.Dialler(m.name), transport.Options{}); err != nil {
		t.Fatal(err)
	}
	m.runner = raftgroup.NewRunner(host, raftgroup.NewLogWriter(m.log.NewBatch()), raftgroup.NewApplier(m.store),
		m.store, m.net, raftgroup.BootClock{})
	l, err := n.Listen(m.name)
	if err != nil {
		t.Fatal(err)
	}
	if err = m.net.Start(l, m, nil); err != nil {
		t.Fatal(err)
	}
}

// Receive implements transport.RaftHandler.
func (m *raftNode) Receive(from transport.NodeID, frame []byte) error {
	return m.runner.Receive(from, frame)
}

// ReceiveSnapshot implements transport.RaftHandler.
func (m *raftNode) ReceiveSnapshot(from transport.NodeID, r io.Reader, _ int64) error {
	return m.runner.ReceiveSnapshot(from, r)
}

// lead makes the first node lead all groups.
func lead(t *testing.T, m *raftNode) {
	t.Helper()
	for g, group := range m.groups {
		eventually.True(t, "node 0 leads", func() bool {
			if err := m.runner.Do(func(h *raftgroup.Host) { h.Campaign(uint64(g + 1)) }); err != nil {
				t.Fatal(err)
			}
			_, ok := group.Evaluating()
			return ok
		})
	}
}

type heard chan raftgroup.Outcome

func (c heard) Done(o raftgroup.Outcome) { c <- o }

// TestLargeProposals checks that proposals of 16 MiB reach all replicas, for several groups concurrently and together
// with small proposals. No limit of Raft, the host, or the transport may exclude a proposal permanently.
func TestLargeProposals(t *testing.T) {
	if raceEnabled {
		t.Skip("a matter of bytes; shadow memory makes it slow")
	}
	const groups, large = 2, 16<<20 - 16
	nodes := startRaft(t, 4, 4, groups, raftgroup.Options{TruncateBytes: 40 << 20, TruncateKeep: 2})
	lead(t, nodes[0])
	var all []heard
	for i := range 8 {
		for _, group := range nodes[0].groups {
			w := make(heard, 1)
			command := ledger.Add("n", 1)
			if i == 4 {
				command = ledger.Set("large", make([]byte, large))
			}
			if err := nodes[0].runner.Propose(group, 0, command, w); err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
	}
	for _, w := range all {
		if o := <-w; o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	for g, group := range nodes[0].groups {
		for _, m := range nodes[1:] {
			eventually.True(t, "all replicas have all", func() bool { return m.groups[g].Applied() >= group.Applied() })
		}
	}
}

// TestStreamedSnapshot checks that an empty replica receives a snapshot of many chunks through the transport. No part
// of the snapshot may remain in memory.
func TestStreamedSnapshot(t *testing.T) {
	nodes := startRaft(t, 4, 3, 1, raftgroup.Options{TruncateEntries: 8, TruncateKeep: 1})
	lead(t, nodes[0])
	group := nodes[0].groups[0]
	for i := range 10 {
		w := make(heard, 1)
		if err := nodes[0].runner.Propose(group, 0, ledger.Set(fmt.Sprint(i), make([]byte, 1<<20)), w); err != nil {
			t.Fatal(err)
		}
		if o := <-w; o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	w := make(heard, 1)
	err := nodes[0].runner.Do(func(h *raftgroup.Host) {
		h.ChangeMembers(1, []raftgroup.Change{{Member: raftgroup.Member{Replica: 13, Node: raftID(3)},
			As: raftgroup.Learner}}, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := <-w; o.Err != nil {
		t.Fatal(o.Err)
	}
	learner := nodes[3].groups[0]
	eventually.True(t, "the learner has all", func() bool { return learner.Applied() >= group.Applied() })
	eventually.True(t, "the learner is fresh", func() bool {
		return learner.Fresh(raftgroup.BootClock{}.Now(), 500*time.Millisecond)
	})
	want, err := nodes[0].store.Hash(1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := nodes[3].store.Hash(1); err != nil || got != want {
		t.Fatalf("%x, %v; want %x", got, err, want)
	}
	if c := nodes[0].net.Counters(); c.SnapshotsSent == 0 || c.SnapshotBytesSent < 9<<20 {
		t.Errorf("%+v", c)
	}
}
