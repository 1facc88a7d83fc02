// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// node is a machine and the process on it. Up is false while the process is down.
type node struct {
	simenv.Loop
	w *simulation
	// wipes counts the disks of the machine. Other nodes regard each disk as a new node.
	wipes byte

	raftLog *raftlog.Store
	store   *storage.Store
	parts   *partition.Host

	// These fields hold the coordinator, the client and the server of the internal protocol, and the connections of
	// clients to the coordinator. These components end with the process.
	coord         *coordinator.Coordinator
	fakeTransport *fakeTransport
	calls         *rpc.Server
	callers       []*link
	control
	// originals checks the directories of other nodes. met holds the process runs that were admitted. harm describes
	// the damage to the node's own directory.
	originals *membership.DirectoryGuard
	met       map[livesAt]bool
	harm      *harm
	// disputed is set if another node has admitted a directory of this node that is not the restored directory.
	disputed bool
	// creations is the number of earlier directories with the node's identity.
	creations uint64
	// born is set after the first replicas have been created.
	born              bool
	partialCrashState partialCrashState
	// seen holds the values that a reader on this node must see.
	seen map[seenAt]uint64
}

type seenAt struct {
	replica topology.ReplicaID
	key     string
}

func newNode(w *simulation, m *simenv.Machine) *node {
	n := &node{Loop: simenv.Loop{Machine: m}, w: w}
	n.Hooks = simenv.Hooks{
		Tick: tick, Lenient: true,
		ID: func() raftgroup.NodeID { return raftgroup.NodeID(n.self()) },
		At: func(id raftgroup.NodeID) *simenv.Loop {
			if to := w.nodeOf(topology.NodeID(id)); to != nil {
				return &to.Loop
			}
			return nil
		},
		Lets: func(from raftgroup.NodeID) bool {
			other := w.nodeOf(topology.NodeID(from))
			return other == nil || n.connected(other)
		},
		Ahead:   n.plantLease,
		Heard:   w.plantAnswers,
		Applied: func() { w.compareStates(n); w.watchSteps() },
		Stop: func() {
			n.crash()
			w.After(w.Between(time.Second, restartMost), n.restart)
		},
		CrashedInStep: n.crashedInStep,
		Lost: func(err error) bool {
			if n.damaged() {
				n.fail(err)
			}
			return n.damaged()
		},
	}
	return n
}

// self returns the node's identity, which is stored on its disk.
func (n *node) self() (id topology.NodeID) {
	id[0], id[1] = byte(n.ID+1), n.wipes
	return id
}

// nodeOf returns the machine with an identity. nodeOf returns nil if no current disk has the identity.
func (w *simulation) nodeOf(id topology.NodeID) *node {
	if id[0] == 0 {
		return nil
	}
	if n := w.nodes[id[0]-1]; n.self() == id {
		return n
	}
	return nil
}

func (n *node) options() partition.Options {
	return partition.Options{
		Clock: n.plantNow(), DedupeReach: dedupeReach,
		Cluster: &partition.Cluster{
			Node: n.self(), Log: n.raftLog, Clock: n.Machine,
			SimHooks: &partition.SimHooks{Runner: n.runner, Scheduler: n.Scheduler()},
			Observer: replicaObserver{node: n, life: n.Life},
			Raft: raftgroup.Options{
				Tick: tick, ElectionTicks: elections, TruncateEntries: 14, TruncateKeep: 4, UnappliedEntries: 2,
				UnappliedNode: 3,
			},
		},
	}
}

// replicaObserver handles the events of a node's replicas during one process run.
type replicaObserver struct {
	partition.NoObserver
	*node
	life int
}

func (n replicaObserver) RecordsChanged(version uint64) {
	if n.keeper != nil {
		n.keeper.Reload(version)
	}
}

func (n replicaObserver) RecordsPut(version uint64, put []command.Record) {
	if n.keeper != nil {
		n.keeper.NoteChange(version, put)
	}
}

func (n replicaObserver) Replaced(replica topology.ReplicaID) { n.comeBack(replica) }

func (n replicaObserver) LeadershipChanged(id topology.PartitionID, leader topology.NodeID, here bool) {
	if n.Life != n.life {
		return
	}
	if n.coord != nil {
		n.coord.LeaderChanged(id, leader)
	}
	if here && n.loops != nil {
		n.loops.Enqueue(id)
	}
	if id == topology.MetaPartition && n.builder != nil {
		n.builder.Wake()
	}
	if here {
		n.w.counts.Leaders++
		n.w.newTerm(id)
		n.w.Note("node %d leads partition %d", n.ID, id)
	}
}

func (n replicaObserver) SnapshotInstalled(group, index uint64) {
	n.w.counts.Snapshots++
	n.w.Note("node %d installed partition %d at %d", n.ID, group, index)
}

func (n replicaObserver) Truncated(uint64, uint64) { n.w.counts.Truncations++ }

func (n replicaObserver) Quiesced(_ uint64, quiet bool) {
	if quiet {
		n.w.counts.Quiesced++
	}
}

func (n replicaObserver) PeerDown(peer raftgroup.NodeID, down bool) {
	if n.Life == n.life && n.peers != nil {
		n.peers.SetDown(peer, down)
	}
}

// start opens the stores and starts the components of the node.
func (n *node) start() {
	w := n.w
	n.Reset()
	n.Boot()
	n.seen, n.met = map[seenAt]uint64{}, map[livesAt]bool{}
	if err := n.open(); err != nil {
		n.notStarted(err)
		return
	}
	w.Note("node %d starts", n.ID)
	n.Begin()
	n.Spawn(n.run)
}

func (n *node) open() (err error) {
	w := n.w
	n.store, err = storage.Open(n.FS, rowsDir, storage.Options{
		Identity:   storage.Identity{Cluster: [16]byte{1}, Node: n.self(), CreationID: n.creations + 1},
		CacheBytes: 1 << 20, MemtableBytes: 512 << 10, MinFreeDisk: -1, TombstoneCacheBytes: -1,
	})
	if err != nil {
		return err
	}
	for _, table := range []uint32{rowsTable, wipedTable, smallTable, w.batches.Table()} {
		t := storage.Table{ID: table}
		if table == rowsTable && w.plan.With.Transactions {
			t.Clustering = 1
		}
		n.store.InstallTable(t)
	}
	if n.Life == 0 {
		if err := n.writeInitialMetadata(); err != nil {
			return err
		}
	}
	if err := n.openLog(); err != nil {
		return err
	}
	if err := n.plantMetas(); err != nil {
		return err
	}
	n.meet()
	if n.parts, err = partition.Open(halting{partition.Stored{Store: n.store}, n}, n.options()); err == nil {
		n.parts.SetPrograms(itemPrograms{n})
	}
	return err
}

// openLog opens the log if it matches the rows.
func (n *node) openLog() error {
	log, directory, err := n.plantLineage(membership.OpenLog(n.store, logDir, logOptions(n)))
	if err != nil {
		return err
	}
	n.raftLog = log
	n.originals = &membership.DirectoryGuard{
		Directory: directory, Witness: incarnation.NewPeerHistory(n.store), Log: slog.New(slog.DiscardHandler),
		Node: clusterNode{node: n},
	}
	return nil
}

func logOptions(n *node) raftlog.Options {
	return raftlog.Options{FS: n.FS, MemtableBytes: 512 << 10, GroupCacheBytes: 4 << 10}
}

// replayer returns the component that completes the batches of failed coordinators.
func (n *node) replayer() *coordinator.Replayer {
	return &coordinator.Replayer{Coordinator: n.coord, Log: n.log()}
}

// restartMost is the maximum downtime of a process if the fault does not specify a downtime.
const restartMost = 3 * time.Second

// crash ends the process. Some of the other nodes may detect the end of the process.
func (n *node) crash() { n.ended(func() { n.Crash(n.close) }) }

// ended handles a crash that the given function causes.
func (n *node) ended(crash func()) {
	n.w.stepsOf(n, &n.w.counts.StepCrashes)
	crash()
	n.w.Net.Refuse(n.Machine, n.refuses(n.self()))
}

// refuses notifies a node that another node's address refuses connections.
func (n *node) refuses(id topology.NodeID) func(by *simenv.Machine) {
	return func(by *simenv.Machine) {
		other := n.w.nodes[by.ID]
		other.peers.SetDown(id, true)
		if n.w.plan.Bugs.RefusalIsDeath {
			other.parts.ReplicaSets().NodeDeparted(id)
			return
		}
		other.parts.ReplicaSets().NodeRefused(id)
	}
}

func (n *node) restart() {
	if n.Host == nil && len(n.w.Failures) == 0 {
		n.start()
	}
}

// close ends the process without notifying other nodes.
func (n *node) close() {
	n.End()
	for _, l := range n.callers {
		l.broken(false)
	}
	if n.fakeTransport != nil {
		n.fakeTransport.close()
	}
	if n.coord != nil {
		s := n.coord.Stats()
		n.w.counts.Repeats += int(s.Retries)
		n.w.counts.Forwarded += int(s.Forwarded)
	}
	n.Host, n.parts, n.coord, n.fakeTransport, n.calls, n.callers, n.control = nil, nil, nil, nil, nil, nil, control{}
	n.originals = nil
	if n.raftLog != nil {
		_ = n.raftLog.Close()
	}
	if n.store != nil {
		_ = n.store.Close()
	}
	n.raftLog, n.store = nil, nil
}

// leads returns the term in which a node leads a partition according to the node's loop. ok is false if the node does
// not lead the partition.
func (n *node) leads(id topology.PartitionID) (term uint64, ok bool) {
	if n.Host == nil {
		return 0, false
	}
	s, ok := n.Host.Status(uint64(id))
	return s.Term, ok && s.Leading
}

// leaderOf returns the node that leads a partition in the highest term.
func (w *simulation) leaderOf(id topology.PartitionID) (leader *node) {
	last := uint64(0)
	for _, n := range w.nodes {
		if term, ok := n.leads(id); ok && term > last {
			leader, last = n, term
		}
	}
	return leader
}
