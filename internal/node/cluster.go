// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/regions"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/server/nodeevents"
)

const (
	// keepAlive and silence determine when an idle connection to a node is closed.
	keepAlive = 300 * time.Millisecond
	silence   = 1200 * time.Millisecond
	// clusterWorkers is the maximum number of reads that wait for other nodes.
	clusterWorkers = 256
	// handoverTime is the maximum time that a stopping node waits for other nodes to take over its leaderships.
	handoverTime = 5 * time.Second
)

// cluster holds the parts of a node that belongs to a cluster.
type cluster struct {
	n              *Node
	self           topology.NodeID
	log            *raftlog.Store
	directoryGuard *membership.DirectoryGuard
	transport      *transport.Transport
	client         *remote.Client
	peers          *peers.Peers
	reconcilers    *reconcile.Manager

	// returning is held while the replica of the meta partition is replaced.
	returning sync.Mutex

	cancel context.CancelFunc
	ctx    context.Context // ctx ends when the node stops
	wg     sync.WaitGroup
	// started is closed when leader changes can be handled.
	started chan struct{}
	// keeper receives new metadata, and host is notified when other processes end. Both are set later, because
	// replicas and transport start earlier. version is the latest metadata version that the local replica has
	// reported.
	keeper  atomic.Pointer[meta.Keeper]
	host    atomic.Pointer[partition.Host]
	version atomic.Uint64

	rejections *membership.Rejections
	member     *membership.Member
	operations *membership.NodeOperations
	regions    *regions.Operations
	// events notifies clients. events is nil before start.
	events *nodeevents.Notifier
}

// newCluster opens the parts that communicate with other nodes. The cluster accepts no requests until listen is
// called.
func (n *Node) newCluster() (*cluster, error) {
	id := n.store.Identity()
	c := &cluster{n: n, self: id.Node, started: make(chan struct{})}
	c.rejections = membership.NewRejections(n.log, silence, localNode{c})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.openLog(); err != nil {
		return nil, err
	}
	var err error
	starts := c.directoryGuard.Directory.History.Append(nil)
	self := transport.Self{Cluster: id.Cluster, Node: id.Node, Address: n.InternalAddr(), History: string(starts)}
	nodeTLS, _ := n.certificates.Nodes()
	c.transport, err = transport.New(self, transport.DialTCP, transport.Options{
		TLS: nodeTLS, Secret: n.joinSecret.Value(), Levels: n.levels,
		Admission: c.directoryGuard, KeepAlive: keepAlive, IdleTimeout: silence,
		SnapshotRate: int64(n.opts.Cluster.SnapshotRate), Load: &n.clients,
		Observer: peerObserver{c},
	})
	if err != nil {
		return nil, err
	}
	n.certificates.SetTransport(c.transport)
	n.life.OnClose(c.transport.Close, c.transport.Depart) // the host of the replicas is closed earlier
	c.client = remote.New(c.transport, nil)
	c.peers = peers.New(c.self, c.transport, peers.Options{Observer: peerObserver{c}})
	return c, nil
}

// options returns the cluster options of the replicas' host.
func (c *cluster) options() *partition.Cluster {
	return &partition.Cluster{Node: c.self, Log: c.log, Transport: c.transport,
		Raft: raftgroup.Options{ElectionTicks: c.n.opts.Testing.ElectionTicks}, Observer: replicaObserver{cluster: c}}
}

// rejoinMeta makes the node rejoin the meta partition with a new replica.
func (c *cluster) rejoinMeta(replica topology.ReplicaID) {
	if c.ctx.Err() != nil {
		return
	}
	switch done, err := c.n.local.Rejoin(replica); {
	case err != nil:
		c.n.life.Fail(err)
	case done:
		c.n.log.LogAttrs(c.ctx, slog.LevelInfo,
			"the node has rejoined the metadata partition after a long absence",
			slog.Uint64("replica", uint64(replica)))
	}
}

// openLog opens the Raft log.
func (c *cluster) openLog() error {
	n := c.n
	o := raftlog.Options{
		FS: n.files, MemtableBytes: int64(n.opts.Memory.Memtable), NodeCacheBytes: int64(n.opts.Memory.Budget / 16),
		MaxOpenFiles: n.tables, Reserve: n.reserve, Owner: n.life,
	}
	dir := filepath.Join(n.opts.Data, membership.LogDir)
	if n.opts.Data == "" {
		dir = filepath.Join(memoryDir, membership.LogDir)
	}
	var directory *incarnation.Directory
	var err error
	if c.log, directory, err = membership.OpenLog(n.store, dir, o); err != nil {
		return err
	}
	n.life.OnClose(c.log.Close)
	c.directoryGuard = &membership.DirectoryGuard{
		Dir: filepath.Dir(dir), Directory: directory, Witness: incarnation.NewPeerHistory(n.store),
		Node: localNode{c}, Log: n.log,
	}
	return nil
}

// localNode implements membership.Node.
type localNode struct{ *cluster }

// Record implements membership.Node.
func (c localNode) Record() *meta.Node { return c.n.nodeRecord() }

// State implements membership.Node.
func (c localNode) State() *meta.State {
	if k := c.keeper.Load(); k != nil {
		return k.State()
	}
	return nil
}

// Fail implements membership.Node.
func (c localNode) Fail(reason error) { c.n.life.Fail(reason) }

// setMetadata passes the loaded metadata to the parts that need it.
func (c *cluster) setMetadata(k *meta.Keeper) {
	c.member.Metadata = k
	c.operations = &membership.NodeOperations{Metadata: k}
	c.regions = &regions.Operations{Metadata: k}
	c.attachKeeper(k)
}

// attachKeeper passes new metadata to a keeper, starting with the changes since the metadata was loaded.
func (c *cluster) attachKeeper(k *meta.Keeper) {
	c.keeper.Store(k)
	k.Reload(c.version.Load())
}

// listen starts to accept connections from other nodes.
func (c *cluster) listen(l net.Listener) error {
	calls := &c.n.calls
	calls.HandleManual(remote.NewServer(c.n.host, c.transport, nil), remote.Calls...)
	c.member.Register(calls)
	return c.transport.Start(l, c.n.host.ReplicaSets(), calls)
}

// removed stops the node because the other nodes have removed it. This is expected if the node was leaving.
func (c *cluster) removed() {
	if s := (localNode{c}).State(); s != nil {
		if self := s.Node(c.self); self != nil && self.State >= meta.Leaving {
			c.n.life.Fail(ErrLeft)
			return
		}
	}
	c.n.life.Fail(errors.New("the node was removed from the cluster while it was down: you can delete its data"))
}

// start starts the background work.
func (c *cluster) start() {
	n := c.n
	c.reconcilers = &reconcile.Manager{
		Node: c.self, Region: n.opts.Region, Keeper: n.metadata, Host: n.host, Member: c.member, Log: n.log,
		Local: n.local, Store: n.store,
	}
	c.events = &nodeevents.Notifier{Self: c.self, Address: n.info.RPC, Metadata: n.metadata, Peers: c.peers,
		Queries: n.queries, Clients: n.cql, Catalog: n.catalog}
	c.events.Register(&n.calls)
	close(c.started)
	c.run(func() { c.peers.Run(c.ctx) })
	c.reconcilers.Start(c.ctx, c.run)
	c.run(func() { c.member.FollowDisks(c.ctx) })
	c.run(func() { c.events.WatchStopping(c.ctx) })
	c.run(func() { c.member.CollectStats(c.ctx) })
	presence := &membership.NodeRecordUpdater{Metadata: n.metadata, Node: localNode{c}}
	c.run(func() {
		presence.Run(c.ctx)
		c.ensureTables()
	})
	joining := c.joining()
	c.run(func() { joining.DiscoverPeers(c.ctx) })
}

func (c *cluster) run(f func()) { c.wg.Go(f) }

// stop stops the background work.
func (c *cluster) stop() error {
	c.cancel()
	c.wg.Wait()
	return nil
}

// handover transfers leaderships to other nodes before the node stops.
func (c *cluster) handover() error {
	ctx, cancel := context.WithTimeout(context.Background(), handoverTime)
	defer cancel()
	c.peers.AnnounceStop(ctx)
	if err := c.n.host.ReplicaSets().TransferAll(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// change changes the metadata through the leader of the meta partition. It rejects changes from a node without
// metadata, because version 0 would match any version.
func (c *cluster) change(ctx context.Context, records command.Records) (version uint64, err error) {
	p := c.n.metadata.State().Topology.Meta()
	if p == nil || records.Expect == 0 {
		return 0, errors.New("the node has not joined the cluster yet")
	}
	return c.n.coordinator.Change(ctx, p, records, c.n.schemaTimeout())
}
