// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/test/sim/ledger"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// node is a machine and the process on it. Host is nil while the process is down.
type node struct {
	simenv.Loop
	w *simulation

	log   *raftlog.Store
	store *ledger.Store
	// shared holds the reads that reuse the response to an earlier read's request, by group (Bugs.SharedAnswer).
	// shared is nil if no request is in flight.
	shared map[uint64][]func(raftgroup.Outcome)
	// tokens holds the latest token of Group.Lease by group.
	tokens [groupCount + 1]uint64
}

func newNode(w *simulation, m *simenv.Machine) *node {
	n := &node{Loop: simenv.Loop{Machine: m}, w: w}
	n.Hooks = simenv.Hooks{
		Tick:    tick,
		ID:      n.self,
		At:      func(id raftgroup.NodeID) *simenv.Loop { return &w.nodes[nodeOf(id)].Loop },
		Ahead:   n.plantClock,
		Heard:   w.plantAnswers,
		Said:    n.plantCommits,
		Applied: func() { w.compareStates(n) },
		Stop: func() {
			n.crash()
			w.After(w.Between(time.Second, 3*time.Second), n.restart)
		},
	}
	return n
}

// self returns the node's identity.
func (n *node) self() raftgroup.NodeID { return nodeID(n.ID) }

func (n *node) options() raftgroup.Options {
	return raftgroup.Options{
		Node: n.self(), Tick: tick, ElectionTicks: elections, TruncateEntries: 12, TruncateKeep: 3, UnappliedEntries: 2,
		UnappliedNode: 3,
		Observer:      observer{node: n},
	}
}

// observer counts the events of the groups of a node.
type observer struct {
	raftgroup.NoObserver
	*node
}

func (n observer) LeaderChanged(group uint64, leader raftgroup.Member, term uint64) {
	if r := n.Host.Group(group); r != nil && leader.Replica == r.Replica() {
		n.w.leads(n.node, group, r.Replica(), term)
	}
}

func (n observer) SnapshotInstalled(group, index uint64) {
	n.w.counts.Snapshots++
	n.w.Note("node %d installed group %d at %d", n.ID, group, index)
}

func (n observer) Truncated(uint64, uint64) { n.w.counts.Truncations++ }

func (n observer) Quiesced(_ uint64, quiet bool) {
	if quiet {
		n.w.counts.Quiesced++
	}
}

// start opens the stores and starts the components of the node.
func (n *node) start() {
	w := n.w
	n.Reset()
	n.Boot()
	n.shared, n.tokens = map[uint64][]func(raftgroup.Outcome){}, [groupCount + 1]uint64{}
	if err := n.open(); err != nil {
		w.Fail("node %d does not start: %v", n.ID, err)
		return
	}
	w.Note("node %d starts", n.ID)
	n.Begin()
}

func (n *node) open() (err error) {
	if n.log, err = raftlog.Open("data/log", raftlog.Options{FS: n.FS, MemtableBytes: 512 << 10,
		GroupCacheBytes: 4 << 10}); err != nil {
		return err
	}
	if n.store, err = ledger.Open("data/rows", n.FS, 512<<10); err != nil {
		return err
	}
	n.Snaps = n.plantSnapshots(n.store)
	n.Writer = raftgroup.NewLogWriter(n.plantLog(n.log.NewBatch()))
	n.Apply = raftgroup.NewApplier(n.plantMachine(n.store))
	n.Host = raftgroup.NewHost(n.log, n.log.NewBatch(), n.options())
	var configs []raftgroup.GroupConfig
	err = n.store.Metas(func(group uint64, m ledger.Meta) {
		c := config(group, m)
		c.Fresh = n.w.plan.Bugs.ForgottenPromise
		configs = append(configs, c)
	})
	if err == nil {
		_, err = n.Host.Open(configs...)
	}
	for i := range configs {
		if err == nil {
			err = n.w.checkChanges(n, &configs[i])
		}
	}
	return err
}

// config returns the group configuration in the metadata of a state machine.
func config(group uint64, m ledger.Meta) raftgroup.GroupConfig {
	where, _, err := raftgroup.DecodeMembers(m.Where)
	if err != nil {
		panic(fmt.Sprintf("group %d: %v", group, err))
	}
	return raftgroup.GroupConfig{
		ID:      group,
		Replica: m.Replica,
		Applied: m.Applied,
		Term:    m.Term,
		Conf:    m.Conf,
		Where:   where,
		Initial: m.Applied == 10,
	}
}

// crash ends the process. Some of the other nodes may detect the end of the process.
func (n *node) crash() {
	n.Crash(n.close)
	n.w.hist.crashed(n.ID)
	n.w.refuse(n)
}

// refuse makes an address refuse the connections of some nodes. Either the process at the address has ended, or a
// firewall rejects the connections of a running process.
func (w *simulation) refuse(gone *node) {
	for _, n := range w.nodes {
		if n == gone || n.Host == nil || w.OneIn(3) {
			continue
		}
		n.AfterLife(w.Between(time.Millisecond, 100*time.Millisecond), func() {
			w.Environment.Faults.Refused++
			n.Call(w.plantRefused(gone))
		})
	}
}

// depart ends the process in an orderly way. It offers its leaderships to other nodes and then announces that it
// serves no more requests.
func (n *node) depart() {
	w := n.w
	w.counts.Departures++
	w.Note("node %d is told to stop", n.ID)
	n.Call(func(h *raftgroup.Host) { h.TransferAll() })
	n.AfterLife(w.Between(10*time.Millisecond, 500*time.Millisecond), func() {
		n.crash()
		for _, other := range w.nodes {
			if other != n {
				w.Net.Send(n.ID, other.ID, nil, func([]byte) { other.Departed(n.self()) })
			}
		}
		w.After(w.Between(50*time.Millisecond, 3*time.Second), n.restart)
	})
}

func (n *node) restart() {
	if n.Host == nil && len(n.w.Failures) == 0 {
		n.start()
	}
}

// close ends the process without notifying other nodes.
func (n *node) close() {
	n.End()
	n.Host = nil
	if n.log != nil {
		_ = n.log.Close()
	}
	if n.store != nil {
		_ = n.store.Close()
	}
	n.log, n.store = nil, nil
}

// leading returns the node's group if this node leads it.
func (n *node) leading(group uint64) *raftgroup.Group {
	if n.Host == nil {
		return nil
	}
	g := n.Host.Group(group)
	if g == nil {
		return nil
	}
	if s, ok := n.Host.Status(group); !ok || !s.Leading {
		return nil
	}
	return g
}

// begin creates the first nodes and replicas.
func (w *simulation) begin() {
	for _, m := range w.Machines {
		w.nodes = append(w.nodes, newNode(w, m))
	}
	for group := uint64(1); group <= groupCount; group++ {
		conf := &pb.ConfState{}
		var where []raftgroup.Member
		voters := voterCount
		switch group {
		case 2:
			voters = nodeCount // a quorum exists without the leader and one follower
		case groupCount:
			voters = 1 // the group grows by one voter at a time
		}
		for v := range voters {
			w.replicas++
			conf.Voters = append(conf.Voters, w.replicas)
			where = append(where, raftgroup.Member{Replica: w.replicas, Node: nodeID((int(group) + v) % nodeCount)})
		}
		for _, m := range where {
			n := w.nodes[nodeOf(m.Node)]
			w.create(n, group, ledger.Meta{Replica: m.Replica, Applied: 10, Term: 5, Conf: conf,
				Where: raftgroup.EncodeMembers(nil, where)})
		}
	}
	for _, n := range w.nodes {
		n.start()
	}
}

// create stores a group's initial metadata on a node that is down.
func (w *simulation) create(n *node, group uint64, m ledger.Meta) {
	store, err := ledger.Open("data/rows", n.FS, 512<<10)
	if err == nil {
		err = errors.Join(store.Create(group, m), store.Close())
	}
	if err != nil {
		w.Fail("create group %d on node %d: %v", group, n.ID, err)
	}
}
