// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

const (
	// keepAlive and silence are how soon a connection to a node that says nothing is given up.
	keepAlive = 300 * time.Millisecond
	silence   = 1200 * time.Millisecond
	// clusterWorkers is how many reads may wait for other nodes at a time.
	clusterWorkers = 256
	// handoverTime bounds how long a node that stops waits for others to lead.
	handoverTime = 5 * time.Second
)

// cluster is what makes a node one of many.
type cluster struct {
	n         *Node
	self      topology.NodeID
	log       *raftlog.Store
	originals *membership.Originals
	transport *transport.Transport
	client    *remote.Client
	server    *remote.Server
	peers     *peers.Peers
	loops     *reconcile.Loops

	// returning is held while the replica of the meta partition is exchanged.
	returning sync.Mutex

	cancel context.CancelFunc
	ctx    context.Context // ends with the node
	wg     sync.WaitGroup
	// leaders are told of changes once there is somebody to tell.
	started chan struct{}
	// keeper hears of new records, host that a node's process has ended, once they are there; replicas and transport
	// work before that. version is the newest of the records that the replica here has told of.
	keeper  atomic.Pointer[meta.Keeper]
	host    atomic.Pointer[partition.Host]
	version atomic.Uint64

	strangers *membership.Strangers
	member    *membership.Member
	orders    *membership.Orders
	leavers   leavers
}

// newCluster opens what the node needs to talk to others. Nothing arrives before listen.
func (n *Node) newCluster() (*cluster, error) {
	id := n.store.Identity()
	c := &cluster{
		n: n, self: id.Node, started: make(chan struct{}), strangers: membership.NewStrangers(n.log, silence, n.fail),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.openLog(); err != nil {
		return nil, err
	}
	var err error
	starts := c.originals.Directory.History.Append(nil)
	self := transport.Self{Cluster: id.Cluster, Node: id.Node, Address: n.internalAddr(), History: string(starts)}
	c.transport, err = transport.New(self, transport.DialTCP, transport.Options{
		TLS: n.nodeTLS, Secret: n.secret, Admit: c.originals.Admit, Former: c.originals.Former, Levels: n.levels,
		KeepAlive:   keepAlive,
		IdleTimeout: silence, SnapshotRate: int64(n.opts.Cluster.SnapshotRate), Overloaded: n.short,
		Events: transport.Events{
			Refused:          func(p transport.Peer) { c.refused(p.Node) },
			Departed:         func(p transport.Peer) { c.departed(p.Node) },
			HandshakeRefused: c.strangers.TurnedAway,
			Accepted:         func(p transport.Peer, _ transport.Class) { c.originals.Saw(p) },
			DialFailed: func(node topology.NodeID, _ transport.Class, address string, err error) {
				c.originals.NotReached(err)
				if refused := (*transport.Refused)(nil); errors.As(err, &refused) && refused.ByPeer &&
					errors.Is(err, transport.ErrNotAdmitted) {
					c.left()
				}
				c.strangers.NotReached(node, address, err)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, c.transport.Close, c.transport.Depart) // the host of the replicas is closed before
	c.client = remote.New(remote.NewTransport(c.transport), nil)
	c.peers = peers.New(c.self, c.transport, peers.Options{Changed: c.aliveChanged, Left: c.left, Skewed: c.skewed})
	return c, nil
}

// options are those of the replicas' host.
func (c *cluster) options() *partition.Cluster {
	return &partition.Cluster{
		Node: c.self, Log: c.log, Transport: frames{c.transport},
		Raft: raftgroup.Options{Events: raftgroup.Events{
			PeerDown: func(node raftgroup.NodeID, down bool) { c.peers.SetDown(topology.NodeID(node), down) },
			Failed:   c.originals.GroupsFailed,
			SnapshotSent: func(group, to uint64, err error) {
				if err != nil {
					c.n.log.LogAttrs(
						c.ctx,
						slog.LevelWarn,
						"snapshot not sent",
						slog.Uint64("partition", group),
						slog.Uint64("replica", to),
						slog.String("error", err.Error()),
					)
					return
				}
				c.n.log.LogAttrs(c.ctx, slog.LevelDebug, "snapshot sent", slog.Uint64("partition", group),
					slog.Uint64("replica", to))
			},
			SnapshotInstalled: func(group, index uint64) {
				c.n.log.LogAttrs(c.ctx, slog.LevelDebug, "snapshot installed", slog.Uint64("partition", group),
					slog.Uint64("index", index))
			},
			Dropped: func(bound string, n int) {
				c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "messages between nodes dropped", slog.String("bound", bound),
					slog.Int("messages", n))
			},
		}},
		RecordsChanged: func(version uint64) {
			c.version.Store(version)
			if k := c.keeper.Load(); k != nil {
				k.Reload(version)
			}
		},
		RecordsPut: func(version uint64, put []command.Record) {
			if k := c.keeper.Load(); k != nil {
				k.Hear(version, put)
			}
		},
		LeaderChanged: c.leaderChanged,
		Replaced: func(replica topology.ReplicaID) { // it is told again and again
			if c.returning.TryLock() {
				c.run(func() {
					defer c.returning.Unlock()
					c.comeBack(replica)
				})
			}
		},
	}
}

// comeBack has the node take another place in the meta partition.
func (c *cluster) comeBack(replica topology.ReplicaID) {
	if c.ctx.Err() != nil {
		return
	}
	switch done, err := c.n.local.Return(replica); {
	case err != nil:
		c.n.fail(err)
	case done:
		c.n.log.LogAttrs(c.ctx, slog.LevelInfo,
			"the node was away for long and is a member of the meta partition again",
			slog.Uint64("replica", uint64(replica)))
	}
}

// openLog opens the log of the replica sets.
func (c *cluster) openLog() error {
	n := c.n
	o := raftlog.Options{
		FS: vfs.Default, MemtableBytes: int64(n.opts.Memory.Memtable), NodeCacheBytes: int64(n.opts.Memory.Budget / 16),
		MaxOpenFiles: n.tables, Reserve: n.reserve,
		Fatal: func(text string) { n.fail(errors.New(text)) },
	}
	dir := filepath.Join(n.opts.Data, membership.LogDir)
	if n.opts.Data == "" {
		o.FS, dir = vfs.NewMem(), filepath.Join(memoryDir, membership.LogDir)
	}
	var directory *incarnation.Directory
	var err error
	if c.log, directory, err = membership.OpenLog(n.store, dir, o); err != nil {
		return err
	}
	n.closers = append(n.closers, c.log.Close)
	c.originals = &membership.Originals{
		Dir: filepath.Dir(dir), Directory: directory, Witness: incarnation.NewPeerHistory(n.store), Records: c.records,
		Log: n.log, Fail: n.fail,
	}
	return nil
}

// records are those that the node knows, nil before it has read them.
func (c *cluster) records() *meta.State {
	if k := c.keeper.Load(); k != nil {
		return k.State()
	}
	return nil
}

// begin makes the node a member that knows the records.
func (c *cluster) begin(k *meta.Keeper) {
	c.member.Records = k
	c.orders = &membership.Orders{Records: k}
	c.follow(k)
}

// follow makes a keeper hear of new records, those first that came since it read them.
func (c *cluster) follow(k *meta.Keeper) {
	c.keeper.Store(k)
	k.Reload(c.version.Load())
}

// frames joins transport and raftgroup, which do not know each other.
type frames struct{ t *transport.Transport }

func (f frames) Send(to raftgroup.NodeID, frame []byte) bool {
	return f.t.Send(topology.NodeID(to), frame)
}

func (f frames) SendSnapshot(to raftgroup.NodeID, head []byte, data io.ReaderAt, size int64) error {
	return f.t.SendSnapshot(topology.NodeID(to), head, data, size)
}

// listen lets other nodes in.
func (c *cluster) listen(l net.Listener) error {
	c.server = remote.NewServer(c.n.host, remote.NewTransport(c.transport), nil)
	return c.transport.Start(l, transport.Handlers{
		OnFrame: c.n.host.Receive,
		OnSnapshot: func(from topology.NodeID, s *transport.SnapshotReader) error {
			return c.n.host.ReceiveSnapshot(from, s, s.Size)
		},
		ServeInline: func(_ topology.NodeID, request []byte, r *transport.Responder) bool {
			return c.server.ServeInline(request, r)
		},
		OnCommand: func(ctx context.Context, from topology.NodeID, request []byte, r *transport.Responder) {
			switch {
			case len(request) == 0:
				r.Fail(errors.New("empty request"))
			case request[0] >= peers.KindFirst:
				peers.Serve(ctx, c.member, from, request, r)
			default:
				c.server.Serve(ctx, from, request, r)
			}
		},
	})
}

// left is told that the others count this node out. That is what was asked for if this node knew that it was leaving.
func (c *cluster) left() {
	if s := c.records(); s != nil {
		if self := s.Node(c.self); self != nil && self.State >= meta.Leaving {
			c.n.fail(ErrLeft)
			return
		}
	}
	c.n.fail(errors.New("the node was taken out of the cluster while it was away: its data may be removed"))
}

// refused is told that a node's address refuses connections: its process may have ended.
func (c *cluster) refused(node topology.NodeID) {
	c.peers.SetDown(node, true)
	if h := c.host.Load(); h != nil {
		h.NodeRefused(node)
	}
}

// departed is told by a node's process that it has ended.
func (c *cluster) departed(node topology.NodeID) {
	c.peers.SetDown(node, true)
	if h := c.host.Load(); h != nil {
		h.NodeDeparted(node)
	}
}

// skewed is told that the clock of this node is wrong by what a quorum of the nodes say, or right. What the node
// stamps and sweeps is held to the others' clocks anyhow, as soon as it has heard them; it is better led by nodes that
// need not be held.
func (c *cluster) skewed(skewed bool, ahead time.Duration) {
	if h := c.host.Load(); h != nil {
		h.Abstain(partition.ClockWrong, skewed)
	}
	if ahead == 0 {
		level := slog.LevelInfo
		if skewed {
			level = slog.LevelDebug
		}
		c.n.log.LogAttrs(c.ctx, level, "the clock of this node was compared with those of the others",
			slog.Bool("may_lead", !skewed))
		return
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelError,
		"the clock of this node is wrong by what most nodes say: it leads nothing while others can",
		slog.Duration("ahead", ahead.Round(time.Millisecond)))
}

// leaderChanged is told who leads a partition.
func (c *cluster) leaderChanged(id topology.PartitionID, leader topology.NodeID, here bool) {
	select {
	case <-c.started:
	default:
		return
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelDebug, "leader changed", slog.Uint64("partition", uint64(id)),
		slog.String("leader", leader.Short()), slog.Bool("here", here))
	c.n.coordinator.LeaderChanged(id, leader)
	if here {
		c.loops.Look(id)
	}
	if id == topology.MetaPartition {
		c.n.builder.Look()
	}
}

// start begins what runs in the background.
func (c *cluster) start() {
	n := c.n
	c.loops = &reconcile.Loops{
		Node: c.self, Keeper: n.records, Host: n.host, View: c.member.View, LeadsMeta: c.member.LeadsMeta, Log: n.log,
		Local: n.local, Size: n.sizeOf,
	}
	close(c.started)
	c.run(func() { c.peers.Run(c.ctx) })
	c.loops.Start(c.ctx, c.run)
	c.run(func() { c.member.FollowDisks(c.ctx) })
	c.run(func() { c.followLeavers(c.ctx) })
	c.run(func() { c.member.Weigh(c.ctx) })
	presence := &membership.Presence{Records: n.records, Self: n.record}
	c.run(func() {
		presence.Run(c.ctx)
		c.ensureTables()
	})
	joining := c.joining()
	c.run(func() { joining.Greet(c.ctx) })
}

func (c *cluster) run(f func()) { c.wg.Go(f) }

// stop ends the background work.
func (c *cluster) stop() error {
	c.cancel()
	c.wg.Wait()
	return nil
}

// handover lets others lead before the node stops.
func (c *cluster) handover() error {
	ctx, cancel := context.WithTimeout(context.Background(), handoverTime)
	defer cancel()
	c.peers.Stop(ctx)
	if err := c.n.host.TransferAll(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// change has records changed by whoever leads the meta partition. What a node without any records makes of them is no
// change of the cluster's; and to expect version 0 is to expect none in particular.
func (c *cluster) change(ctx context.Context, records command.Records) (version uint64, err error) {
	p := c.n.records.State().Map.Meta()
	if p == nil || records.Expect == 0 {
		return 0, errors.New("the node has not joined yet")
	}
	return c.n.coordinator.Change(ctx, p, records, schemachange.Wait)
}
