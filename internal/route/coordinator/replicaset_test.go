// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/memnet"
)

// member is a node of a real cluster in this process.
type member struct {
	*Coordinator
	store     *storage.Store
	log       *raftlog.Store
	host      *partition.Host
	transport *transport.Transport
	up        atomic.Bool
	net       *memnet.Network
	// away is the node that this node considers to be down, or nil.
	away atomic.Pointer[topology.NodeID]
}

// network implements Network for the nodes of the process.
type network struct {
	*remote.Client
	*transport.Transport
}

func (n network) Replica(node topology.NodeID, id topology.PartitionID) Member {
	return n.Client.Replica(node, id)
}

func (n network) Via(via, node topology.NodeID, id topology.PartitionID) Member {
	return n.Client.Replica(node, id).Via(via)
}

// alive implements Peers with a function that reports whether a node is alive.
type alive func(node topology.NodeID) bool

func (a alive) Alive(node topology.NodeID) bool                                 { return a(node) }
func (alive) Memory(topology.NodeID, time.Time) uint64                          { return 0 }
func (alive) SendAcknowledged(context.Context, map[topology.PartitionID]uint64) {}

// newCluster4 starts four nodes with a table of n partitions and the batch log table.
func newCluster4(t *testing.T, n int) []*member {
	net := memnet.New()
	s := mapOf(t, n)
	all := make([]*member, 4)
	for i := range all {
		m := &member{net: net}
		all[i] = m
		m.up.Store(true)
		at := fmt.Sprint("host", i+1)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		var err error
		fs := vfs.NewMem()
		m.log, err = raftlog.Open("log", raftlog.Options{FS: fs, MemtableBytes: 1 << 20})
		must(err)
		m.store, err = storage.Open(fs, "rows", storage.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
		must(err)
		m.store.InstallTable(storage.Table{ID: table, Clustering: 1})
		m.store.InstallTable(storage.Table{ID: batchTable})
		m.transport, err = transport.New(transport.Self{Cluster: transport.ClusterID{1}, Node: node(i + 1),
			Address: at}, net.Dialler(at), transport.Options{})
		must(err)
		var co atomic.Pointer[Coordinator]
		m.host, err = partition.Open(partition.Stored{Store: m.store}, partition.Options{Cluster: &partition.Cluster{
			Node: node(i + 1), Log: m.log, Transport: m.transport,
			Raft:     raftgroup.Options{Tick: 30 * time.Millisecond, ElectionTicks: 10},
			Observer: leaderObserver{coordinator: &co},
		}})
		must(err)
		client, server := remote.New(m.transport, nil),
			remote.NewServer(m.host, m.transport,
				nil)
		m.Coordinator = New(m.host, s, Options{Cluster: &Cluster{
			Node:    node(i + 1),
			Network: network{client, m.transport}, Relays: network{client, m.transport},
			Peers: alive(func(node topology.NodeID) bool {
				away := m.away.Load()
				return all[node[0]-1].up.Load() && (away == nil || *away != node)
			}),
			Batches: new(fleet).batches(),
		}})
		co.Store(m.Coordinator)
		l, err := net.Listen(at)
		must(err)
		must(m.transport.Start(l, m.host.ReplicaSets(), server))
	}
	for i, m := range all {
		for o := range all {
			if o != i {
				m.transport.SetAddress(node(o+1), fmt.Sprint("host", o+1))
			}
		}
		for p := range s.All() {
			if err := m.host.Create(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, m := range all {
			m.stop(t)
		}
	})
	return all
}

func (m *member) stop(t *testing.T) {
	if m.up.Swap(false) {
		m.Coordinator.Close()
		if err := errors.Join(m.host.Close(), m.transport.Close(), m.store.Close(), m.log.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestRealCluster checks that every node of a four-node cluster serves every request, for all placements of leaders and
// after the node of a leader has stopped. Acknowledged writes must be visible, counters must count each update once,
// and batches must be complete.
func TestRealCluster(t *testing.T) {
	all := newCluster4(t, 2)
	sum := func(c *Coordinator, key string) (int64, error) {
		var got int64
		q := command.Read{Table: table, Key: []byte(key), Token: token.Hash([]byte(key)), Now: 1, Level: dberr.Quorum}
		err := c.Read(t.Context(), &q, cells(func(r *row.Row) {
			got = int64(binary.BigEndian.Uint64(r.Cells[0].Value))
		}))
		return got, err
	}
	count := func(c *Coordinator, key string) error {
		out := make(result, 1)
		c.ConditionalWrite(t.Context(), add(key, "n", 1), WriteOptions{Type: "COUNTER", Level: dberr.Quorum}, out)
		return <-out
	}
	added, unknown := int64(0), int64(0)
	round := func(live []*member, round int) {
		t.Helper()
		for i, m := range live {
			if err := writeNow(m.Coordinator, WriteOptions{Level: dberr.Quorum},
				put(fmt.Sprint("w", i), "c", int64(round))); err != nil {
				t.Fatalf("round %d: a write at node %d: %v", round, i, err)
			}
			if err := count(m.Coordinator, "counter"); err == nil {
				added++
			} else {
				unknown++
			}
			b := []command.Mutation{put(fmt.Sprint("b", i), "c", int64(round)),
				put(fmt.Sprint("b", i+10), "c", int64(round)), put(fmt.Sprint("b", i+20), "c", int64(round))}
			if err := writeNow(m.Coordinator, WriteOptions{Level: dberr.Quorum, Atomic: true, Type: "BATCH"},
				b...); err != nil {
				t.Fatalf("round %d: a batch at node %d: %v", round, i, err)
			}
		}
		for _, m := range live {
			for i := range live {
				for _, key := range []string{fmt.Sprint("w", i), fmt.Sprint("b", i), fmt.Sprint("b", i+10),
					fmt.Sprint("b", i+20)} {
					if v, err := sum(m.Coordinator, key); err != nil || v != int64(round) {
						t.Errorf("round %d: %s is %d at another node: %v", round, key, v, err)
					}
				}
			}
			if v, err := sum(m.Coordinator, "counter"); err != nil || v < added || v > added+unknown {
				t.Errorf("round %d: the counter is %d, %d were added, %d perhaps: %v", round, v, added, unknown, err)
			}
		}
	}
	for i := range 5 {
		round(all, i+1)
	}
	// The test stops the node that leads the counter's partition.
	k := []byte("counter")
	p := all[0].Topology().Locate(table, token.Hash(k), k)
	leader := -1
	for i, m := range all {
		if m.host.Replica(p.ID).Leading() {
			leader = i
		}
	}
	if leader < 0 {
		t.Fatal("no leader")
	}
	all[leader].stop(t)
	live := append(append([]*member(nil), all[:leader]...), all[leader+1:]...)
	for i := range 5 {
		round(live, i+10)
	}
	var forwarded uint64
	for _, m := range live {
		forwarded += m.Stats().Forwarded
	}
	if forwarded == 0 {
		t.Error("nothing was forwarded")
	}
	if err := live[0].Truncate(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	if v, err := sum(live[1].Coordinator, "counter"); err != nil || v != 0 {
		t.Errorf("after TRUNCATE the counter is %d: %v", v, err)
	}
}

// TestGoesRoundACutLink checks a coordinator whose connection to a partition's leader is cut. Every request must
// complete through a node that can reach the leader. The coordinator may or may not know that the leader is
// unreachable.
func TestGoesRoundACutLink(t *testing.T) {
	all := newCluster4(t, 1)
	ctx := t.Context()
	if err := writeNow(all[0].Coordinator, WriteOptions{Level: dberr.Quorum}, put("k", "c", 1)); err != nil {
		t.Fatal(err)
	}
	const rows = 6000 // enough for several pages
	many := put("many", "", 0)
	for i := range rows {
		many.Ops = append(many.Ops, put("many", fmt.Sprintf("row%010d", i), int64(i)).Ops...)
	}
	many.Ops = many.Ops[1:]
	if err := writeNow(all[0].Coordinator, WriteOptions{Level: dberr.Quorum}, many); err != nil {
		t.Fatal(err)
	}
	p := all[0].Topology().Partitions(table)[0]
	leader := slices.IndexFunc(all, func(m *member) bool { return m.host.Replica(p.ID).Leading() })
	asker := (leader + 1) % len(all)
	from, to := fmt.Sprint("host", asker+1), fmt.Sprint("host", leader+1)
	c := all[asker].Coordinator
	all[0].net.Cut(from, to, true)
	all[0].net.Cut(to, from, true)
	led, began := node(leader+1), time.Now()
	for i, away := range []*topology.NodeID{nil, &led} {
		all[asker].away.Store(away)
		v := int64(10 * (i + 1))
		if err := writeNow(c, WriteOptions{Level: dberr.Quorum}, put("k", "c", v)); err != nil {
			t.Errorf("round %d: a write: %v", i, err)
		}
		if got, err := valueOf(c, "k"); got != v || err != nil {
			t.Errorf("round %d: read %d, %v", i, got, err)
		}
		n := 0
		q := command.Read{Table: table, Key: many.Key, Token: many.Token, Now: 1, Level: dberr.Quorum}
		if err := c.Read(ctx, &q, cells(func(*row.Row) { n++ })); n != rows || err != nil {
			t.Errorf("round %d: %d rows of %d: %v", i, n, rows, err)
		}
		if applied, err := swapNow(c, swapOf("k", v, v+1)); !applied || err != nil {
			t.Errorf("round %d: a condition: %v, %v", i, applied, err)
		}
		b := []command.Mutation{put("k", "c", v+2), put("l", "c", v+2)}
		if err := writeNow(c, WriteOptions{Level: dberr.Quorum, Atomic: true, Type: "BATCH"}, b...); err != nil {
			t.Errorf("round %d: a batch: %v", i, err)
		}
		if err := c.AtLeader(ctx, p, time.Second, func(ctx context.Context, m Member) error {
			_, err := m.Last(ctx, partition.ExtentOf(p), fairshare.Principal{})
			return err
		}); err != nil {
			t.Errorf("round %d: a query to the leader: %v", i, err)
		}
	}
	if err := c.Truncate(ctx, table); err != nil {
		t.Error(err)
	}
	if n, most := c.Stats().RetryReasons.Unknown, uint64(time.Since(began)/relayHintTTL+2); n > most {
		t.Errorf("%d requests found out by themselves that the link is cut, of which %d had to", n, most)
	}
	if !all[leader].host.Replica(p.ID).Leading() {
		t.Error("another node leads, so the test checks nothing")
	}
	all[0].net.Cut(from, to, false)
	all[0].net.Cut(to, from, false)
}

// cells is a visitor that collects rows.
type cells func(r *row.Row)

func (cells) Partition(token.Token, []byte, *row.Row) (command.Step, error) { return command.More, nil }

func (c cells) Row(_ []byte, r *row.Row) (command.Step, error) {
	c(r)
	return command.More, nil
}

// leaderObserver notifies a coordinator of the leaders after the coordinator has been created.
type leaderObserver struct {
	partition.NoObserver
	coordinator *atomic.Pointer[Coordinator]
}

func (o leaderObserver) LeadershipChanged(id topology.PartitionID, leader topology.NodeID, _ bool) {
	if c := o.coordinator.Load(); c != nil {
		c.LeaderChanged(id, leader)
	}
}
