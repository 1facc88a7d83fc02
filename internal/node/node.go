// SPDX-License-Identifier: Apache-2.0

// Package node is the composition root: it builds a database node of its parts, starts them in order, and stops them in the
// reverse order. Nothing else knows how the parts fit together.
//
// Guarantees: (D1) Start returns when the node serves requests, or not at all: a failed start leaves nothing behind; (D2) Close
// finishes the requests under way, syncs what was written, and leaves no goroutine but those that a broken disk holds; (D3) after a
// failure of the disk the node stops itself (Failed) rather than serve on.
//
// Start at Start; schema.go carries schema changes out, index.go builds indexes, metrics.go and status.go show what goes on.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/cql"
)

const (
	// drainTime is how long Close waits for requests under way.
	drainTime = 10 * time.Second
	// failedTime is how long Close waits for anything once the node has failed: calls of a broken store may never return.
	failedTime = 3 * time.Second
	// memoryDir is where an in-memory node believes its data to be.
	memoryDir = "memory"
)

// Node is a running node.
type Node struct {
	opts Options
	log  *slog.Logger

	store       *storage.Store
	host        *partition.Host
	coordinator *coordinator.Coordinator
	catalog     *catalog.Catalog
	// records are schema, map and nodes; keeper changes them as statements ask, and local has the replicas here follow them.
	records *meta.Keeper
	keeper  *schemaKeeper
	local   *reconcile.Local
	builder *indexBuilder
	// cluster is nil for a node that stands alone.
	cluster     *cluster
	engine      *session.Engine
	cql         *cql.Server
	http        *http.Server
	cqlListener net.Listener
	webListener net.Listener
	// nodeListener is for other nodes.
	nodeListener net.Listener
	info         catalog.NodeInfo
	began        time.Time
	tls          *tls.Config // nil: none
	nodeTLS      *tls.Config
	nodeID       *topology.NodeID // of the certificate
	format       uint32           // the newest cluster version that the node speaks
	passwords    *passwords       // nil: everybody comes in

	wg      sync.WaitGroup // the servers
	closers []func() error // in the order of starting

	closeOnce sync.Once
	closeErr  error
	failOnce  sync.Once
	failed    chan struct{}
	failure   error
}

// Start starts a node and returns when it serves requests. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	n := &Node{opts: o, log: o.Log, began: time.Now(), format: max(o.format, FormatVersion), failed: make(chan struct{})}
	if err := n.startUnlessFailed(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// startUnlessFailed ends the start when the node fails meanwhile: it may wait for others then.
func (n *Node) startUnlessFailed(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-n.failed:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := n.start(ctx)
	if failure := n.Err(); failure != nil && err != nil {
		return failure
	}
	return err
}

func (n *Node) start(ctx context.Context) error {
	// What a configuration can get wrong, and a port that is taken, is found before the store is touched.
	if err := n.loadSecrets(); err != nil {
		return err
	}
	if err := n.listen(ctx); err != nil {
		return err
	}
	if err := n.openStore(ctx); err != nil {
		return err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "store opened", slog.String("data", n.opts.Data), slog.Duration("took", time.Since(n.began)))
	if err := n.openPartitions(); err != nil {
		return err
	}
	if err := n.openRecords(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // the store may have taken long to open
	}
	return n.serve()
}

// loadSecrets reads what clients have to prove and how the node proves who it is.
func (n *Node) loadSecrets() (err error) {
	if n.tls, err = n.opts.TLS.config(); err != nil {
		return err
	}
	if n.nodeTLS, n.nodeID, err = n.opts.Cluster.TLS.config(); err != nil {
		return err
	}
	n.warnOfOpenKeys()
	if len(n.opts.Auth.Users) > 0 {
		n.passwords, err = newPasswords(n.opts.Auth.Users)
	}
	return err
}

func (n *Node) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if n.cqlListener, err = lc.Listen(ctx, "tcp", n.opts.CQL); err != nil {
		return fmt.Errorf("listen for CQL clients: %w", err)
	}
	n.closers = append(n.closers, closeQuietly(n.cqlListener))
	if n.opts.Cluster.Internal != "" {
		if n.nodeListener, err = lc.Listen(ctx, "tcp", n.opts.Cluster.Internal); err != nil {
			return fmt.Errorf("listen for other nodes: %w", err)
		}
		n.closers = append(n.closers, closeQuietly(n.nodeListener))
	}
	if n.opts.HTTP == "off" {
		return nil
	}
	if n.webListener, err = lc.Listen(ctx, "tcp", n.opts.HTTP); err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	n.closers = append(n.closers, closeQuietly(n.webListener))
	return nil
}

// closeQuietly closes a listener that its server may have closed before.
func closeQuietly(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

func (n *Node) openStore(ctx context.Context) error {
	identity, err := n.identity(ctx)
	if err != nil {
		return err
	}
	var fs vfs.FS = vfs.Default
	dir := n.opts.Data
	if dir == "" {
		fs, dir = vfs.NewMem(), memoryDir
	}
	n.store, err = storage.Open(fs, dir, storage.Options{
		Identity:      identity,
		CacheBytes:    int64(n.opts.Memory.BlockCache),
		MemtableBytes: int64(n.opts.Memory.Memtable),
		LargeRowBytes: int64(n.opts.Memory.Budget / 8),
		LargeRowWait:  n.opts.Limits.ReadTimeout,
		MinFreeDisk:   n.opts.Storage.MinFreeDisk,
		Events: storage.Events{
			Corrupt: func(err error) { n.fail(err) },
			Background: func(err error) {
				n.log.LogAttrs(context.Background(), slog.LevelError, "background work of the store failed", slog.String("error", err.Error()))
			},
			Stall: func(stalled bool, reason string) {
				n.log.LogAttrs(context.Background(), slog.LevelWarn, "writes stalled by compactions", slog.Bool("stalled", stalled), slog.String("reason", reason))
			},
			DiskFull: func(full bool, free int) {
				n.log.LogAttrs(context.Background(), slog.LevelWarn, "disk space", slog.Bool("writes_refused", full), slog.Int("free_percent", free))
			},
			Fatal: n.fail,
		},
	})
	if err != nil {
		return err
	}
	n.closers = append(n.closers, n.store.Close)
	return nil
}

// openPartitions opens the replicas, and before that what they need of a cluster.
func (n *Node) openPartitions() error {
	o := partition.Options{LatchWait: n.opts.Limits.WriteTimeout}
	if n.opts.Commit != "periodic" {
		o.Durability = partition.Synced
	}
	if err := n.checkMembership(); err != nil {
		return err
	}
	var err error
	if n.nodeListener != nil {
		if n.cluster, err = n.newCluster(); err != nil {
			return err
		}
		o.Cluster = n.cluster.options()
	}
	if n.host, err = partition.Open(partition.Stored{Store: n.store}, o); err != nil {
		return err
	}
	n.closers = append(n.closers, n.host.Close)
	if n.cluster != nil {
		n.cluster.host.Store(n.host)
	}
	n.local = &reconcile.Local{Node: n.store.Identity().Node, Host: replicas{n.host}}
	return nil
}

// replicas is the host as package reconcile sees it.
type replicas struct{ *partition.Host }

func (r replicas) Has(id topology.PartitionID) bool { return r.Replica(id) != nil }

// openRecords loads schema, map and nodes, makes everything follow them, and joins the cluster if that is to be done.
func (n *Node) openRecords(ctx context.Context) error {
	scan, change := meta.Alone(n.store)
	self := n.store.Identity().Node
	if n.cluster != nil {
		scan, change = n.host.Records, n.cluster.change
	}
	var err error
	o := meta.Options{Self: self, LoadFailed: func(err error) {
		n.log.LogAttrs(context.Background(), slog.LevelError, "records not loaded", slog.String("error", err.Error()))
	}}
	if n.cluster != nil {
		o.Line = n.cluster.line
	}
	n.records, err = meta.New(scan, change, o)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, func() error { n.records.Close(); return nil })
	if n.cluster != nil {
		n.cluster.follow(n.records)
	}
	first := n.records.State()
	n.catalog = catalog.New(first.Schema, func() catalog.NodeInfo { return n.nodeInfo() })
	n.coordinator = coordinator.New(n.host, topology.New(), n.coordinatorOptions())
	n.closers = append(n.closers, func() error { n.coordinator.Close(); return nil })
	n.builder = newIndexBuilder(n.records, n.coordinator, n.catalog.Snapshot, n.log)
	n.builder.require = n.require
	n.builder.mine = func() bool { return n.cluster == nil || n.cluster.leadsMeta() }
	n.keeper = &schemaKeeper{records: n.records, catalog: n.catalog, builder: n.builder, place: n.place}
	if n.cluster != nil {
		n.keeper.agree = n.cluster.agree
	}
	if first.Version > 0 || n.cluster == nil {
		if err := n.dropOrphans(first); err != nil {
			return fmt.Errorf("bring the store in line with its schema: %w", err)
		}
	}
	installTables(n.store, tableChanges(schema.New(), catalog.WithSystem(schema.New()))) // no change brings the tables that are always there
	follow := installer{n}
	follow.install(meta.Empty(), first)
	if seen := n.records.Subscribe(follow.install); seen != first {
		follow.install(first, seen)
	}
	if n.cluster == nil {
		return n.keeper.ensure(ctx)
	}
	if err := n.cluster.listen(n.nodeListener); err != nil {
		return err
	}
	return n.cluster.join(ctx)
}

func (n *Node) coordinatorOptions() coordinator.Options {
	o := coordinator.Options{
		RequestsMax: n.opts.Limits.Requests, ReadTimeout: n.opts.Limits.ReadTimeout, WriteTimeout: n.opts.Limits.WriteTimeout, TableName: n.tableName,
	}
	if c := n.cluster; c != nil {
		o.Cluster = &coordinator.Cluster{
			Node: c.self, Alive: c.peers.Alive, NodeName: c.transport.Address, Batches: write.NewBatchLog(n.catalog.Snapshot()).ForCoordinator(),
			Replica: func(node topology.NodeID, id topology.PartitionID) coordinator.Member {
				return c.client.Replica(node, id)
			},
		}
	}
	return o
}

// place says how a new table is cut and where its parts live.
func (n *Node) place(s *meta.State, t *schema.Table) ([]topology.Piece, error) {
	parts := n.opts.InitialPartitions
	if schema.IsSystem(t.Keyspace) {
		parts = 1
	}
	if n.cluster == nil {
		here := []topology.Place{{Region: n.opts.DataCenter, Nodes: []topology.NodeID{n.store.Identity().Node}}}
		return topology.Equal(parts, here), nil
	}
	view := n.cluster.view()
	return placement.Place(s, &view, n.opts.DataCenter, placement.Table{ID: t.ID, Parts: parts, Whole: parts > 1 || schema.IsSystem(t.Keyspace)}), nil
}

// tableName names a table for traces.
func (n *Node) tableName(id uint32) string {
	if t := n.catalog.Snapshot().TableByID(id); t != nil {
		return t.String()
	}
	return fmt.Sprint(id)
}

// serve starts everything that clients see.
func (n *Node) serve() error {
	n.describe()
	d := ddl.New(n.catalog, n.keeper, ddl.Options{})
	var err error
	options := session.Options{
		PreparedMax:    n.opts.Limits.PreparedStatements,
		ResultBytesMax: int(n.opts.Limits.ResultBytes),
		BatchBytesMax:  int(n.opts.Limits.BatchBytes),
		ReadTimeout:    n.opts.Limits.ReadTimeout,
		Building:       n.builder.Building,
		LateStale:      n.cluster != nil,
	}
	if r := n.routing(); r != nil {
		options.Routing, options.Near = r, r.Near
	}
	n.engine, err = session.New(n.catalog, n.coordinator, d, options)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, func() error { n.engine.Close(); return nil })
	o := cql.Options{
		TLS:                   n.tls,
		ConnectionsMax:        n.opts.Limits.Connections,
		FrameBytesMax:         int(n.opts.Limits.FrameBytes),
		ConnectionInFlightMax: n.opts.Limits.RequestsPerConnection,
		InFlightMax:           n.opts.Limits.Requests,
		InFlightBytesMax:      int64(n.opts.Limits.RequestBytes),
		BacklogMax:            int64(n.opts.Limits.RequestBytes),
		CQLVersion:            catalog.CQLVersion,
	}
	if n.passwords != nil {
		o.Authenticator = n.passwords
	}
	if n.cluster != nil {
		o.Tablets, o.Workers = true, clusterWorkers
	}
	n.cql = cql.New(func(c session.Client) cql.Session { return n.engine.NewSession(c) }, o)
	n.closers = append(n.closers, n.drain)
	n.builder.start()
	n.closers = append(n.closers, func() error { n.builder.close(); return nil })
	if n.cluster != nil {
		n.cluster.start()
		n.closers = append(n.closers, n.cluster.stop, n.cluster.handover)
	}
	n.wg.Go(func() {
		if err := n.cql.Serve(n.cqlListener); err != nil {
			n.fail(err)
		}
	})
	if err := n.serveHTTP(); err != nil {
		return err
	}
	n.startBackground()
	return nil
}

// drain lets the requests under way finish and closes all client connections.
func (n *Node) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	n.cql.Shutdown(ctx)
	return nil
}

func (n *Node) serveHTTP() error {
	if n.webListener == nil {
		return nil
	}
	registry := prometheus.NewRegistry()
	registerMetrics(registry, n)
	n.http = &http.Server{
		Handler: admin.Handler(admin.Options{
			Ready: n.Err, Healthy: n.Err, Metrics: registry, Status: func() any { return n.status() },
			Compact: n.store.Compact, Checkpoint: n.checkpoint, Order: n.order, Profile: isLoopback(n.opts.HTTP),
		}),
		TLSConfig:         n.tls.Clone(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug), // handshakes that strangers fail
	}
	n.closers = append(n.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.http.Shutdown(ctx); err != nil {
			return n.http.Close()
		}
		return nil
	})
	n.wg.Go(func() {
		var err error
		if n.tls != nil {
			err = n.http.ServeTLS(n.webListener, "", "")
		} else {
			err = n.http.Serve(n.webListener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	})
	return nil
}

// checkpoint writes a consistent copy of the data beside the data directory and returns its name. It shares what it can with the original.
func (n *Node) checkpoint() (string, error) {
	if n.opts.Data == "" {
		return "", errors.New("the data is in memory: there is no place for a copy beside it")
	}
	dir := filepath.Clean(n.opts.Data) + ".checkpoint-" + time.Now().UTC().Format("20060102T150405.000Z")
	return dir, n.store.Checkpoint(dir)
}

// startBackground starts the sweeper and the watch over the disk.
func (n *Node) startBackground() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		n.store.RunSweeper(ctx, storage.SweeperOptions{
			Now:     func() int64 { return time.Now().Unix() },
			Spans:   n.sweepable,
			Propose: func(_ context.Context, sw command.Sweep) error { return n.host.Sweep(&sw) },
			Error: func(err error) {
				n.log.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.String("error", err.Error()))
			},
		})
	})
	wg.Go(func() { n.watch(ctx) })
	n.closers = append(n.closers, func() error {
		cancel()
		wg.Wait()
		return nil
	})
}

// watchEvery is how often the node looks whether its disk has failed.
const watchEvery = 100 * time.Millisecond

func (n *Node) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := n.host.Failed(); err != nil {
				n.fail(err)
				return
			}
		}
	}
}

// sweepable are the parts of tables whose garbage this node is to remove: those of replicas that lead.
func (n *Node) sweepable() []keys.Span {
	var out []keys.Span
	for _, r := range n.host.Replicas() {
		if r.ID() != topology.MetaPartition && r.Leading() {
			span, _ := r.Span()
			out = append(out, span.Keys(r.Table()))
		}
	}
	return out
}

// announce tells clients of this node what changed in the schema, whoever changed it.
func (n *Node) announce(events []schema.Event) {
	if n.cql == nil {
		return
	}
	for _, e := range events {
		n.cql.SchemaChanged(session.SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace, Name: e.Name})
	}
}

// describe fixes what clients are told of this node as long as it runs.
func (n *Node) describe() {
	id := n.store.Identity()
	addr := n.cqlListener.Addr().(*net.TCPAddr).AddrPort()
	n.info = catalog.NodeInfo{
		Endpoint: catalog.Endpoint{
			HostID: schema.UUID(id.Node), Datacenter: n.opts.DataCenter, Rack: n.opts.Rack,
			Listen: addr, RPC: addr, Tokens: ringTokens(id.Node),
		},
		ClusterName: n.opts.ClusterName,
		Generation:  int32(n.began.Unix()),
		Clients:     n.clients,
		Prepared:    func() []catalog.PreparedStatement { return n.engine.PreparedStatements() },
		Settings:    n.settings,
	}
}

// nodeInfo is what clients are told of this node and the others now.
func (n *Node) nodeInfo() catalog.NodeInfo {
	info := n.info
	if n.cluster == nil {
		return info
	}
	self, others := n.cluster.endpoints()
	if self.Tokens != nil {
		info.Tokens = self.Tokens
	}
	info.Peers, info.EffectiveReplication = others, func() int { return effectiveReplication(n.records.State()) }
	return info
}

// ReadyLine is what `ilion start` prints once the node serves requests.
func (n *Node) ReadyLine() string {
	line := "Ilion is ready: CQL on " + n.CQLAddr().String()
	if a := n.HTTPAddr(); a != nil {
		line += ", HTTP on " + a.String()
	}
	if n.opts.Data == "" {
		return line + ", data in memory"
	}
	return line + ", data in " + n.opts.Data
}

// CQLAddr is where CQL clients connect.
func (n *Node) CQLAddr() net.Addr { return n.cqlListener.Addr() }

// HTTPAddr is where health and metrics are served, nil if they are not.
func (n *Node) HTTPAddr() net.Addr {
	if n.webListener == nil {
		return nil
	}
	return n.webListener.Addr()
}

// Failed is closed when the node has met a failure it must not go on with (D3); Err then has it.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err returns why the node failed, nil while it serves.
func (n *Node) Err() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

func (n *Node) fail(err error) {
	n.failOnce.Do(func() {
		n.failure = err
		n.log.LogAttrs(context.Background(), slog.LevelError, "the node stops", slog.String("error", err.Error()))
		close(n.failed)
	})
}

// Close stops the node (D2).
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		closed := make(chan error, 1)
		go func() {
			var errs []error
			for i := len(n.closers) - 1; i >= 0; i-- {
				errs = append(errs, n.closers[i]())
			}
			n.wg.Wait()
			closed <- errors.Join(errs...)
		}()
		select {
		case n.closeErr = <-closed:
			return
		case <-n.failed: // before, or by closing
		}
		select {
		case n.closeErr = <-closed:
		case <-time.After(failedTime):
			n.closeErr = n.Err()
		}
	})
	return n.closeErr
}
