// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/regions"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// control holds the metadata keeper and the reconcilers of one process run, assembled as in package node.
type control struct {
	keeper    *meta.Keeper
	peers     *peers.Peers
	loops     *reconcile.Manager
	installer *schemachange.Installer
	changer   *schemachange.Changer
	builder   *backfill.Builder
	cat       *catalog.Catalog
	member    *membership.Member
	// stock serves items and scripts. definitions holds the container definitions that stock has parsed.
	stock       *container.Engine
	scripts     *script.Service
	definitions *container.Definitions
	// writes executes CQL modifications.
	writes *write.Executor
	// views maintains the materialized views.
	views *view.Keeper
	// making is set while the node creates or removes replicas. returning is set while the node changes to its new
	// member ID in the meta partition.
	making, returning bool
}

// meet creates the connections to other nodes and the peer state.
func (n *node) meet() {
	n.fakeTransport = n.newFakeTransport()
	n.peers = peers.New(n.self(), n.fakeTransport, peers.Options{
		Sched: n.Scheduler(), Observer: peerObserver{n},
	})
}

// peerObserver handles the events that package peers reports.
type peerObserver struct{ *node }

// AliveChanged implements peers.Observer.
func (peerObserver) AliveChanged(topology.NodeID, bool) {}

// Removed implements peers.Observer.
func (n peerObserver) Removed() { n.w.Note("node %d hears that it has left", n.ID) }

// ClockSkewed implements peers.Observer.
func (n peerObserver) ClockSkewed(skewed bool, ahead time.Duration) {
	if ahead != 0 {
		n.w.counts.Skewed++
	}
	n.w.Note("node %d: the clock is ahead by %v", n.ID, ahead)
	if !n.w.plan.Bugs.SkewedLeader && n.parts != nil {
		n.parts.ReplicaSets().Abstain(partition.ClockWrong, skewed)
	}
}

// connect creates the client and the server of the node's internal protocol.
func (n *node) connect() {
	s := n.Scheduler()
	n.member = &membership.Member{
		Self: n.self(), Host: n.parts, Peers: n.peers, Network: n.fakeTransport, RebuildDelay: healAfter, Sched: s,
		Node: clusterNode{n, n.Wall()}, Log: slog.New(slog.DiscardHandler),
	}
	n.calls = new(rpc.Server)
	n.calls.HandleManual(remote.NewServer(n.parts, n.fakeTransport, s), remote.Calls...)
	n.member.Register(n.calls)
	n.cat = catalog.New(schema.New(), func() catalog.NodeInfo { return catalog.NodeInfo{} })
	client := remote.New(n.fakeTransport, s)
	n.coord = coordinator.New(n.parts, n.w.born, coordinator.Options{Scheduler: s, Clock: n.peers,
		Cluster: &coordinator.Cluster{
			Node: n.self(), Sequence: n.originals.Directory.History.FirstNumber(), Peers: n.peers,
			Network: network{n, client}, Relays: network{n, client}, Batches: n.plantBatches(write.NewBatchLog(n.cat)),
		}})
	n.parts.SetBatches(n.coord)
}

// network provides access to the replicas on other nodes.
type network struct {
	n      *node
	client *remote.Client
}

// Replica implements coordinator.Network.
func (w network) Replica(to topology.NodeID, id topology.PartitionID) coordinator.Member {
	g := regions.Gateway{Region: w.n.region(), Peers: w.n.peers, Sched: w.n.Scheduler(), Metadata: w.n.state}
	return w.n.plantMember(g.Replica(w.client, to, id))
}

// Via implements coordinator.Relays.
func (w network) Via(via, to topology.NodeID, id topology.PartitionID) coordinator.Member {
	return w.n.plantMember(w.client.Replica(to, id).Via(via))
}

// Address implements coordinator.Network.
func (network) Address(to topology.NodeID) string { return to.Short() }

// clusterNode is a node as its peers see it. It implements membership.Node.
type clusterNode struct {
	*node
	began time.Time
}

// Record implements membership.Node.
func (n clusterNode) Record() *meta.Node { return n.record() }

// Report implements membership.Node.
func (n clusterNode) Report() peers.Report {
	return peers.Report{
		Clock: n.Wall(), Started: n.began, Records: n.state().Version, Schema: n.cat.Snapshot().Version, DiskFree: -1,
		Memory: n.parts.DedupeEpoch(),
	}
}

// State implements membership.Node.
func (n clusterNode) State() *meta.State {
	if n.keeper == nil {
		return nil
	}
	return n.keeper.State()
}

// Fail implements membership.Node.
func (n clusterNode) Fail(reason error) { n.fail(reason) }

// run starts the loops of the node. The node follows the metadata and joins the cluster if it is not a member.
func (n *node) run(*simenv.Task) {
	w, s, ctx, life := n.w, n.Scheduler(), context.Background(), n.Life
	n.connect()
	keeper, err := meta.New(n.parts.Records, n.change, meta.Options{
		Self: n.self(), Sched: s, Nonce: w.Rand.Uint64() | 1, Member: n.member,
		LoadFailed: func(err error) { w.Fail("node %d: cannot load metadata: %v", n.ID, err) },
	})
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return
	}
	n.keeper, n.member.Metadata = keeper, keeper
	n.builder = backfill.New(backfill.Options{
		Metadata: keeper, Table: n.plantTable(write.BackfillTable{Coordinator: n.coord, Sched: s}),
		Entries: n.entries, Catalog: n.cat, Sched: s, Member: n.member, Log: n.log(),
	})
	n.changer = &schemachange.Changer{
		Metadata: keeper, Catalog: n.cat, Placer: placer{n}, Partitions: n.coord, Builder: n.builder, Sched: s,
		Member: n.member,
	}
	n.serveItems()
	n.writes = write.NewExecutor(n.coord, write.Options{Pricing: n.coord})
	replicas := exclusive{n, n.local()}
	n.installer = &schemachange.Installer{
		Store: n.store, Replicas: replicas, Catalog: n.cat, Indexes: n.definitions, Router: n.coord,
	}
	first := keeper.State()
	if first.Version > 0 {
		if err := n.exclusively(func() error { return n.orphans(first.Topology) }); n.Life != life {
			return // the process has ended
		} else if err != nil {
			w.Fail("node %d: orphans: %v", n.ID, err)
		}
	}
	n.installer.Begin()
	n.install(meta.Empty(), first)
	if seen := keeper.Subscribe(n.install); seen != first {
		n.install(first, seen)
	}
	n.loops = &reconcile.Manager{
		Node: n.self(), Region: n.region(), Keeper: keeper, Host: n.parts, Member: n.member, Sched: s,
		Log: n.log(), Local: replicas, Replicas: countedReplicas{n},
	}
	s.Go(func() { n.peers.Run(ctx) })
	n.loops.Start(ctx, s.Go)
	s.Go(func() { n.builder.Run(ctx) })
	s.Go(func() { n.replayer().Run(ctx) })
	presence := &membership.NodeRecordUpdater{Metadata: keeper, Node: clusterNode{node: n}, Sched: s}
	s.Go(func() { presence.Run(ctx) })
	if w.plan.With.Growth {
		n.startGrowth(ctx)
	}
	n.startSpending(ctx)
	n.keepViews()
	n.startClients()
	if err := n.firstBoot(); n.Life != life {
		return // the process has ended
	} else if err != nil {
		w.Fail("node %d: creating the first replicas: %v", n.ID, err)
	}
	for _, r := range n.parts.Replicas() {
		n.loops.Enqueue(r.ID())
	}
}

// install applies new metadata.
func (n *node) install(old, next *meta.State) {
	n.w.checkRecords(n, old, next)
	life := n.Life
	if err := n.installer.Install(old, next); err != nil && n.Life == life {
		n.w.Fail("node %d: cannot apply the metadata: %v", n.ID, err)
	}
	n.provide(old, next)
	n.builder.Wake()
	n.member.MetadataChanged(old, next)
	if n.loops != nil {
		n.loops.MetadataChanged(old, next)
	}
}

// placer places the tables of a node.
type placer struct{ *node }

// Place implements the placer of schemachange.Changer.
func (n placer) Place(s *meta.State, t *schema.Table) ([]topology.Piece, error) {
	view := n.member.View()
	return placement.Place(s, &view, []string{region}, placement.Table{ID: t.ID, Parts: 2, Whole: true}), nil
}

// notes writes the node's log to the trace and counts completed builds and replayed batches.
type notes struct {
	slog.Handler
	n *node
}

func (n *node) log() *slog.Logger { return slog.New(notes{slog.DiscardHandler, n}) }

// Enabled implements slog.Handler.
func (l notes) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (l notes) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "index built" {
		l.n.w.counts.Built++
	}
	text := ""
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "batchlog replayed" {
			l.n.w.counts.Replayed += int(a.Value.Int64())
		}
		text += " " + a.String()
		return true
	})
	l.n.w.Note("node %d: %s:%s", l.n.ID, r.Message, text)
	return nil
}

// exclusive creates and removes replicas. It prevents other tasks of the node from doing so concurrently.
type exclusive struct {
	n     *node
	local *reconcile.LocalReconciler
}

// Create implements the replicas of schemachange.Installer.
func (e exclusive) Create(old, next *topology.Snapshot) error {
	return e.n.exclusively(func() error { return e.local.Create(old, next) })
}

// Remove implements the replicas of schemachange.Installer.
func (e exclusive) Remove(old, next *topology.Snapshot) error {
	return e.n.exclusively(func() error { return e.local.Remove(old, next) })
}

// CheckPending implements the check that reconcile.Manager calls.
func (e exclusive) CheckPending() error {
	return e.n.exclusively(func() error { return e.local.CheckPending() })
}

// exclusively runs do without concurrent calls. exclusively does not use a mutex, because a simulated task must not
// block on a mutex.
func (n *node) exclusively(do func() error) error {
	if err := n.Process().Wait(context.Background(), func() bool { return !n.making }, 0); err != nil {
		return err
	}
	n.making = true
	defer func() { n.making = false }()
	return do()
}

// local returns the reconciler for the replicas of the node.
func (n *node) local() *reconcile.LocalReconciler {
	return &reconcile.LocalReconciler{Node: n.self(), Host: replicas{n.parts, n}}
}

// replicas is the host of reconcile.Local.
type replicas struct {
	*partition.Host
	n *node
}

// Has implements the host of reconcile.Local.
func (r replicas) Has(id topology.PartitionID) bool { return r.Replica(id) != nil }

// countedReplicas implements reconcile.Replicas.
type countedReplicas struct{ n *node }

// Replica implements reconcile.Replicas.
func (c countedReplicas) Replica(id topology.PartitionID) reconcile.Replica {
	if r := (reconcile.HostReplicas{Host: c.n.parts}).Replica(id); r != nil {
		return counted{r, c.n}
	}
	return nil
}

// counted is a replica whose membership changes are counted.
type counted struct {
	reconcile.Replica
	n *node
}

// ChangeMembers implements reconcile.Replica.
func (r counted) ChangeMembers(ctx context.Context, changes []raftgroup.Change) error {
	err := r.Replica.ChangeMembers(ctx, changes)
	r.n.w.Note("node %d: members of partition %d change: %v, %v", r.n.ID, r.ID(), changes, err)
	if err == nil {
		r.n.w.counts.Moves++
	}
	return err
}

// change makes the leader of the meta partition change the metadata.
func (n *node) change(ctx context.Context, records command.Records) (uint64, error) {
	p := n.state().Topology.Meta()
	if p == nil || records.Expect == 0 {
		return 0, errors.New("the node has not joined yet")
	}
	return n.coord.Change(ctx, p, records, schemachange.Timeout)
}

// state returns the newest metadata that the node knows. snapshot returns the map that the node uses.
func (n *node) state() *meta.State {
	if n.keeper == nil {
		return meta.Empty()
	}
	return n.keeper.State()
}

func (n *node) snapshot() *topology.Snapshot { return n.coord.Topology() }

// firstBoot creates the initial replicas of the node. A node with a new disk asks to join the cluster.
func (n *node) firstBoot() error {
	w := n.w
	if n.state().Version > 0 || n.parts.Replica(topology.MetaPartition) != nil {
		n.born = true // a later crash may leave the node without this replica
		return nil
	}
	if n.wipes == 0 && !n.born {
		if err := n.exclusively(func() error {
			return n.local().Create(topology.New(), w.born)
		}); err != nil {
			return err
		}
		n.born = true
		if n.parts.Replica(topology.MetaPartition) != nil {
			return nil
		}
	}
	return n.joining().Run(context.Background(), false)
}

// joining returns the procedure by which other nodes admit this node.
func (n *node) joining() *membership.Joiner {
	j := &membership.Joiner{
		ClusterFinder: membership.ClusterFinder{Log: slog.New(slog.DiscardHandler), Sched: n.Scheduler()},
		Node:          clusterNode{node: n}, Network: n.fakeTransport, Metadata: n.keeper, Host: seated{n},
	}
	for _, i := range n.w.Rand.Perm(nodeCount) {
		if i != n.ID {
			j.Addresses = append(j.Addresses, n.w.nodes[i].name())
		}
	}
	return j
}

// seated creates the replica of the meta partition on a joining node.
type seated struct{ n *node }

// Join implements the host of membership.Joining.
func (j seated) Join(id topology.PartitionID, replica topology.ReplicaID) error {
	n := j.n
	self := n.self()
	n.w.Note("node %d joins as %x, replica %d of the meta partition", n.ID, self[:2], replica)
	return n.exclusively(func() error { return n.parts.Join(id, replica) })
}

// name returns the node's address.
func (n *node) name() string { return fmt.Sprintf("127.0.0.%d:9042", n.ID+1) }

// comeBack changes to the new member ID in the meta partition if the node was assigned one while it was offline.
func (n *node) comeBack(replica topology.ReplicaID) {
	if n.returning || n.w.plan.Bugs.NoReturn {
		return
	}
	n.returning = true
	n.Process().Go(func() {
		defer func() { n.returning = false }()
		n.w.Note("node %d: replica %d of the meta partition takes the place of %d", n.ID, replica,
			n.parts.Member(topology.MetaPartition))
		here, life := n.local(), n.Life
		err := n.exclusively(func() error {
			_, err := here.Rejoin(replica)
			return err
		})
		if err != nil && n.Life == life {
			n.w.Fail("node %d: %v", n.ID, err)
		}
	})
}

// record returns the node's record for the metadata.
func (n *node) record() *meta.Node {
	r := n.firstRecord()
	start := n.originals.Directory.History.Newest()
	r.Start, r.Mark, r.CreationID = start.Number, start.Mark, n.store.Identity().CreationID
	return r
}

// firstRecord returns the node's record before its first start.
func (n *node) firstRecord() *meta.Node {
	return &meta.Node{
		ID: n.self(), Internal: n.name(), CQL: n.name(), Region: n.region(), Zone: fmt.Sprint(n.ID), State: meta.Up,
		Levels: feature.Known, Joined: n.Wall().UTC().Truncate(time.Millisecond), CreationID: n.creations + 1,
	}
}

// writeInitialMetadata stores the initial metadata on the voters of the meta partition.
func (n *node) writeInitialMetadata() error {
	w := n.w
	if n.wipes > 0 || n.ID >= voterCount {
		return nil
	}
	b := n.store.NewBatch()
	defer b.Close()
	for _, r := range w.records {
		b.Set(keys.MetaID, r.Key, r.Value)
	}
	b.Set(keys.MetaID, []byte(keys.MetadataVersionKey), binary.BigEndian.AppendUint64(nil, 1))
	return errors.Join(b.Commit(), n.store.Sync())
}

// firstRecords builds the initial metadata, which consists of the first map and the nodes.
func (w *simulation) firstRecords() (err error) {
	s := meta.Empty().WithTopology(w.born)
	if w.plan.With.Schema {
		if s, err = w.firstTables(s); err != nil {
			return err
		}
		w.born = s.Topology
	}
	if w.plan.With.Containers {
		if s, err = w.firstContainer(s); err != nil {
			return err
		}
		w.born = s.Topology
	}
	if w.plan.With.Feeds {
		if s, err = w.firstFeeds(s); err != nil {
			return err
		}
		w.born = s.Topology
	}
	if w.plan.With.Views {
		if s, err = w.firstViews(s); err != nil {
			return err
		}
		w.born = s.Topology
	}
	if w.plan.With.Throughput {
		if s, err = w.firstSpending(s); err != nil {
			return err
		}
		w.born = s.Topology
	}
	if w.plan.With.Regions {
		s = s.WithRegion(&meta.Region{Name: region}).WithRegion(&meta.Region{Name: distant, Number: 1})
	}
	for _, n := range w.nodes {
		r := n.firstRecord()
		r.Tokens = append(r.Tokens, placement.NextToken(s.Nodes, r.Region))
		s = s.WithNode(r)
	}
	w.records, err = meta.Empty().Diff(s)
	return err
}

// answer handles a request from another node.
func (n *node) answer(ctx context.Context, from topology.NodeID, request []byte, r *responder) {
	switch {
	case n.keeper == nil:
		r.Fail(transport.ErrBusy)
	case !n.calls.ServeInline(request, r):
		n.calls.Serve(ctx, from, request, r)
	}
}

// startSetter increments a setting of the cluster repeatedly and counts the successes.
func (n *node) startSetter() {
	w := n.w
	n.Spawn(func(t *simenv.Task) {
		for t.Sleep(w.Between(200*time.Millisecond, 2*time.Second)) && !w.finished {
			if n.state().Version == 0 {
				continue
			}
			number := 0
			err := n.update(func(s *meta.State) (*meta.State, error) {
				number, _ = strconv.Atoi(s.Settings[setting])
				number++
				return s.WithSetting(setting, strconv.Itoa(number)), nil
			})
			if err == nil {
				w.counts.Updates++
				w.counted(n, number)
			}
		}
	})
}

// update changes the metadata. It times out after 5 s.
func (n *node) update(f func(*meta.State) (*meta.State, error)) error {
	ctx, cancel := n.Scheduler().WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := n.keeper.Update(ctx, f)
	return err
}

// moveSomething requests the move of a replica, as an operator would. The balancer may later reverse the move.
func (n *node) moveSomething(*simenv.Task) {
	w := n.w
	err := n.update(func(s *meta.State) (*meta.State, error) {
		var ps []*topology.Partition
		for p := range s.Topology.All() {
			if p.ID != topology.MetaPartition && p.Sets[0].Count(topology.Voter) == len(p.Sets[0].Replicas) &&
				len(p.Sets[0].Replicas) == voterCount {
				ps = append(ps, p)
			}
		}
		if len(ps) == 0 {
			return s, nil
		}
		p := ps[w.Rand.IntN(len(ps))]
		set := p.Sets[0].Replicas
		for _, other := range s.Nodes {
			if p.SetOn(other.ID) == nil && w.nodeOf(other.ID) != nil && other.Region == p.Sets[0].Region {
				a := placement.Action{Partition: p.ID, Region: other.Region, Steps: []placement.Step{
					{Kind: placement.Add, Node: other.ID}, {Kind: placement.Remove,
						Replica: set[w.Rand.IntN(len(set))].ID},
				}}
				m, err := a.Apply(s.Topology, w.Time())
				if err != nil {
					return s, err
				}
				w.Note("node %d: asked for: %v", n.ID, a)
				return s.WithTopology(m), nil
			}
		}
		return s, nil
	})
	if err != nil {
		w.Note("node %d: a move was not asked for: %v", n.ID, err)
	}
}

// giveUp declares a node permanently lost.
func (n *node) giveUp(gone topology.NodeID) {
	orders := &membership.NodeOperations{Metadata: n.keeper, Sched: n.Scheduler()}
	said, err := orders.SetState(context.Background(), hex.EncodeToString(gone[:]), meta.Leaving)
	n.w.Note("node %d: %s, %v", n.ID, said, err)
}

// whole reports whether, according to the node's map, all replica sets have their voters on existing disks.
func (n *node) whole() bool {
	w := n.w
	if n.state().Version == 0 {
		return false
	}
	for p := range n.state().Topology.All() {
		set := p.Sets[0].Replicas
		voters := 0
		for i := range set {
			if w.nodeOf(set[i].Node) == nil || set[i].State == topology.Joining || set[i].State == topology.Leaving {
				return false
			}
			if set[i].State == topology.Voter {
				voters++
			}
		}
		if voters < voterCount {
			return false
		}
	}
	return true
}

// handoverTime equals the constant in package node.
const handoverTime = 5 * time.Second

// stop shuts the process down as an administrator would. The node announces the shutdown, transfers its leaderships,
// and announces its end.
func (n *node) stop() {
	n.Spawn(func(t *simenv.Task) {
		ctx, cancel := n.Scheduler().WithTimeout(context.Background(), handoverTime)
		defer cancel()
		n.peers.AnnounceStop(ctx)
		if err := n.parts.ReplicaSets().TransferAll(ctx); !t.Dead() {
			n.w.Note("node %d has handed over: %v", n.ID, err)
			n.AfterLife(1, n.depart)
		}
	})
}

// depart ends the process in an orderly way. The last message of the process announces its end.
func (n *node) depart() {
	w, id := n.w, n.self()
	w.counts.Departures++
	w.Note("node %d departs", n.ID)
	n.close()
	for _, other := range w.nodes {
		w.Net.Send(n.ID, other.ID, nil, func([]byte) {
			if other.Up {
				other.peers.SetDown(id, true)
				other.parts.ReplicaSets().NodeDeparted(id)
			}
		})
	}
	w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
}

// partitions returns the partition IDs of a map in order.
func partitions(m *topology.Snapshot) (ids []topology.PartitionID) {
	for p := range m.All() {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids
}
