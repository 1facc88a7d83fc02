// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/regions"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/stats"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

func (n *Node) openStore(ctx context.Context) error {
	n.startup = n.newStartup()
	identity, err := n.startup.Identity(ctx, n.opts.Data, n.levels.Oldest)
	if err != nil {
		return err
	}
	if err := restrictDirectory(n.opts.Data); err != nil {
		return err
	}
	var dir string
	if n.files, dir, err = n.openFiles(ctx); err != nil {
		return err
	}
	usage := n.opts.Testing.DiskUsage
	if n.opts.Data != "" && usage == nil {
		usage = diskUsage
	}
	n.store, err = storage.Open(n.files, dir, storage.Options{
		DiskUsage:     usage,
		Identity:      identity,
		Levels:        n.levels,
		CacheBytes:    int64(n.opts.Memory.BlockCache),
		ANNCacheBytes: int64(n.opts.Memory.Budget / 5),
		MemtableBytes: int64(n.opts.Memory.Memtable),
		LargeRowBytes: int64(n.opts.Memory.Budget / 8),
		LargeRowWait:  n.opts.Limits.ReadTimeout,
		MinFreeDisk:   n.opts.Storage.MinFreeDisk,
		MaxOpenFiles:  n.tables,
		Reserve:       n.reserve,
		Observer:      storeObserver{n},
	})
	if err != nil {
		return err
	}
	n.life.OnClose(n.store.Close)
	return nil
}

// restrictDirectory removes other users' access to the data directory.
func restrictDirectory(dir string) error {
	info, err := os.Stat(dir)
	if dir == "" || err != nil || !info.IsDir() || info.Mode().Perm()&0o077 == 0 {
		return nil // the store reports the problem
	}
	return os.Chmod(dir, 0o700)
}

// diskUsage returns the usage of the fuller disk. The Raft log and the data may be on different disks.
func diskUsage(dir string) (vfs.DiskUsage, error) {
	u, err := vfs.Default.GetDiskUsage(dir)
	log, logErr := vfs.Default.GetDiskUsage(filepath.Join(dir, membership.LogDir))
	if err == nil && logErr == nil && log.AvailBytes < u.AvailBytes {
		u = log
	}
	return u, err
}

// storeObserver logs the events of the store and stops the node after a failure of the store. It implements
// storage.Observer.
type storeObserver struct{ *Node }

// Failed implements storage.Observer.
func (n storeObserver) Failed(err error) { n.life.Fail(err) }

// BackgroundFailed implements storage.Observer.
func (n storeObserver) BackgroundFailed(err error) {
	n.log.LogAttrs(context.Background(), slog.LevelError, "background work of the store failed",
		slog.String("error", err.Error()))
}

// Stalled implements storage.Observer.
func (n storeObserver) Stalled(stalled bool, reason string) {
	n.log.LogAttrs(context.Background(), slog.LevelWarn, "writes stalled by compactions",
		slog.Bool("stalled", stalled), slog.String("reason", reason))
}

// DiskFull implements storage.Observer.
func (n storeObserver) DiskFull(full bool, free int) {
	n.log.LogAttrs(context.Background(), slog.LevelWarn, "disk space", slog.Bool("writes_refused", full),
		slog.Int("free_percent", free))
}

// DiskOut stops a cluster node before its disk is too full for a restart. A cluster node cannot reject writes, because
// it must write the entries that other nodes commit. A standalone node rejects writes and serves reads.
func (n storeObserver) DiskOut(free, need uint64) {
	if n.opts.Cluster.Internal == "" {
		return
	}
	n.life.Fail(fmt.Errorf("the disk of %s is full: %.1f MiB are free, and the node requires %.1f MiB to start again. "+
		"No data is lost: free disk space, then start the node", n.opts.Data, mebibytes(free), mebibytes(need)))
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }

// openPartitions opens the replicas after the parts of the cluster that the replicas need.
func (n *Node) openPartitions(ctx context.Context) error {
	n.changes = changebuffer.New(int64(n.opts.Memory.ChangeBuffer))
	n.life.OnClose(n.changes.Close)
	o := partition.Options{LatchWait: n.opts.Limits.WriteTimeout, ChangeBuffer: n.changes, Log: n.log,
		Transactions: partition.TransactionBounds{Time: n.opts.Testing.TransactionTime},
		Hot:          func(r *partition.Replica, hot bool) { n.usage.PartitionHot(r, hot) }}
	if n.opts.Commit != "periodic" {
		o.Durability = partition.Synced
	}
	if err := n.startup.Prepare(ctx, n.store, n.nodeRecord); err != nil {
		return err
	}
	if err := n.joinSecret.Save(n.startup.Bootstrap); err != nil {
		return err
	}
	var err error
	if n.Nodes != nil {
		if n.cluster, err = n.newCluster(); err != nil {
			return err
		}
		o.Cluster, o.Clock = n.cluster.options(), n.cluster.peers
		n.clock = peers.NewNodeClock(n.cluster.peers, n.opts.Testing.Clock)
	} else {
		n.clock = peers.NewNodeClock(nil, n.opts.Testing.Clock)
		o.Clock = n.clock
	}
	if n.host, err = partition.Open(partition.Stored{Store: n.store}, o); err != nil {
		if n.cluster != nil {
			err = n.cluster.directoryGuard.ExplainOpenError(err)
		}
		return err
	}
	n.life.OnClose(n.host.Close)
	if c := n.cluster; c != nil {
		c.host.Store(n.host)
		c.member = &membership.Member{
			Self: c.self, Host: n.host, Peers: c.peers, Network: c.transport, Node: localNode{c},
			RebuildDelay: n.opts.Cluster.RebuildDelay, Log: n.log,
			Loads:      membership.NewLoadTracker(n.host, n.store, uint64(n.opts.Cluster.Capacity)),
			BytesSlack: float64(n.opts.Cluster.BalanceThreshold),
		}
	} else if _, err := membership.RaiseStandaloneLevel(ctx, n.store.Directory, n.host, n.store.Level()); err != nil {
		return err
	}
	checkClock(ctx, n.host, n.log)
	n.local = reconcile.NewLocalReconciler(n.store.Identity().Node, n.host)
	return nil
}

// checkClock logs a warning if the clock is behind timestamps of earlier writes.
func checkClock(ctx context.Context, host *partition.Host, log *slog.Logger) {
	newest := time.UnixMicro(host.NewestStamp())
	if behind := peers.ClockRegression(time.Now(), newest); behind > 0 {
		log.LogAttrs(ctx, slog.LevelWarn,
			"the clock is behind the newest write: it was set back, or it was wrong when the newest write "+
				"was made; values with later timestamps hide new writes with client timestamps",
			slog.Time("newest", newest.UTC()), slog.Duration("behind", behind.Round(time.Millisecond)))
	}
}

// openMetadata loads the metadata and applies it, with all later changes, to this node. It joins the cluster if
// required.
func (n *Node) openMetadata(ctx context.Context) error {
	scan, change := meta.Standalone(n.store)
	self := n.store.Identity().Node
	if n.cluster != nil {
		scan, change = n.host.Records, n.cluster.change
	}
	var err error
	o := meta.Options{Self: self, LoadFailed: func(err error) {
		n.log.LogAttrs(context.Background(), slog.LevelError, "cannot load the metadata", slog.String("error",
			err.Error()))
	}}
	if n.cluster != nil {
		o.Member = n.cluster.member
	}
	n.metadata, err = meta.New(scan, change, o)
	if err != nil {
		return err
	}
	n.life.OnClose(func() error { n.metadata.Close(); return nil })
	if c := n.cluster; c != nil {
		c.setMetadata(n.metadata)
		n.queries = clusterquery.NewClient(c.self, n.metadata, c.peers, rpc.Client{Caller: c.transport})
	}
	first := n.metadata.State()
	n.catalog = catalog.NewForRelease(n.compat, first.Schema, func() catalog.NodeInfo { return n.nodeInfo() })
	n.usage = stats.NewUsageReporter(n.statsSources(), n.log)
	n.coordinator = coordinator.New(n.host, topology.New(), n.coordinatorOptions())
	n.host.SetBatches(n.coordinator)
	n.life.OnClose(func() error { n.coordinator.Close(); return nil })
	n.replayer = &coordinator.Replayer{Coordinator: n.coordinator, Log: n.log}
	n.maintenance = &operations.Maintenance{Metadata: n.metadata, Host: n.host, Store: n.store, Data: n.opts.Data,
		Newest: n.levels.Newest, Standalone: n.cluster == nil}
	if n.keys != nil {
		n.maintenance.Keys = n.keys
	}
	n.partitions = &operations.Partitions{Metadata: n.metadata, Tables: n.catalog, Host: n.host, Store: n.store,
		Log: n.log}
	if n.cluster != nil {
		n.partitions.Member = n.cluster.member
	} else {
		n.standalone = &reconcile.Standalone{Keeper: n.metadata, Host: n.host, Store: n.store, Log: n.log}
		n.partitions.Standalone = n.standalone
	}
	if err := n.newSchema().Run(); err != nil {
		return err
	}
	if n.cluster == nil {
		if err := n.changer.Ensure(ctx); err != nil {
			return err
		}
		if err := n.standalone.Apply(ctx); err != nil { // the split or merge may be left over from a crash
			return err
		}
		n.replayer.FinishOwn(ctx)
		return nil
	}
	if err := n.cluster.listen(n.Nodes); err != nil {
		return err
	}
	return n.cluster.join(ctx)
}

// statsSources returns the parts of this node that provide statistics.
func (n *Node) statsSources() stats.Sources {
	return stats.Sources{Store: n.store, Host: n.host, Catalog: n.catalog, Metadata: n.metadata, Queries: n.queries,
		Clock: n.clock}
}

func (n *Node) coordinatorOptions() coordinator.Options {
	o := coordinator.Options{
		RequestsMax: n.opts.Limits.Requests, ReadTimeout: n.opts.Limits.ReadTimeout,
		WriteTimeout: n.opts.Limits.WriteTimeout, Tables: n.catalog,
		ThrottledWait: n.opts.Limits.ThrottleTimeout,
	}
	batches := write.NewBatchLog(n.catalog)
	o.Cluster = &coordinator.Cluster{Node: n.store.Identity().Node, Batches: batches}
	if c := n.cluster; c != nil {
		o.ThrottledReadsMax = clusterWorkers / 2
		o.Clock = c.peers
		o.Cluster = &coordinator.Cluster{
			Node: c.self, Sequence: c.directoryGuard.Directory.History.FirstNumber(), Peers: c.peers,
			Network: network{c.client, c.transport, c.gateway()}, Relays: network{Client: c.client}, Batches: batches,
		}
	}
	return o
}

// network provides access to the replicas on other nodes. It implements coordinator.Network and coordinator.Relays.
type network struct {
	*remote.Client
	*transport.Transport
	*regions.Gateway
}

// gateway returns the component that decides how this node reaches replicas in other regions.
func (c *cluster) gateway() *regions.Gateway {
	return &regions.Gateway{Region: c.n.opts.Region, Peers: c.peers, Metadata: func() *meta.State {
		if k := c.keeper.Load(); k != nil {
			return k.State()
		}
		return nil
	}}
}

// Replica implements coordinator.Network.
func (n network) Replica(node topology.NodeID, id topology.PartitionID) coordinator.Member {
	return n.Gateway.Replica(n.Client, node, id)
}

// Via implements coordinator.Relays.
func (n network) Via(via, node topology.NodeID, id topology.PartitionID) coordinator.Member {
	return n.Client.Replica(node, id).Via(via)
}
