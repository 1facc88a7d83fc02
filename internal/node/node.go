// SPDX-License-Identifier: Apache-2.0

// Package node is the composition root. It assembles a database node from its parts, starts the parts in order, and
// stops them in reverse order. No other package depends on the connections between the parts.
//
// Guarantees:
//
//   - (D1) Start returns when the node serves requests. A failed start leaves no files or goroutines behind.
//   - (D2) Close finishes the requests in flight and syncs all writes. It leaves no goroutines except goroutines that
//     a broken disk blocks.
//   - (D3) After a disk failure, the node stops itself (Failed) instead of serving further requests.
//
// Start reading at Start. open.go opens the data, cluster.go connects to other nodes, and serve.go serves clients.
package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/node/account"
	"github.com/ilion-db/ilion/internal/node/diagnostics"
	"github.com/ilion-db/ilion/internal/node/engines"
	"github.com/ilion-db/ilion/internal/node/lifecycle"
	"github.com/ilion-db/ilion/internal/node/listeners"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/node/stats"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
	"github.com/ilion-db/ilion/internal/replica/diskfs"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/internal/server/cql"
)

const (
	// drainTime is the maximum time that Close waits for requests in flight.
	drainTime = 10 * time.Second
	// memoryDir is the data directory of an in-memory node in the node's virtual file system.
	memoryDir = "memory"
)

// Options holds the settings of a node.
type Options = options.Options

// Node is a running node.
type Node struct {
	*listeners.Set
	credentials
	*engines.Engines
	life *lifecycle.Lifecycle

	opts  Options
	log   *slog.Logger
	began time.Time
	clock *peers.NodeClock

	versions
	data
	definition
	routes
	operators
	observation
	frontends
}

// versions determines the features and formats that the node uses.
type versions struct {
	// compat is the Cassandra release with which the node is compatible.
	compat *compat.Release
	// featureLevel is the level at which nodes write. levels are the levels that this version supports.
	featureLevel membership.Levels
	levels       feature.Range
	startup      *membership.Startup
}

// data holds the node's store and replicas.
type data struct {
	store *storage.Store
	host  *partition.Host
	// changes buffers the changes that archives of backups need.
	changes *changebuffer.Buffer
	reserve *diskfs.Reserve // reserve of file descriptors
	// files is the file system of the stores. keys are its keys, or nil if the data is not encrypted.
	files  vfs.FS
	keys   *encryption.Keys
	tables int // maximum number of tables that the store keeps open
}

// definition holds the schema, the topology, and the parts that change them.
type definition struct {
	catalog *catalog.Catalog
	// metadata holds the schema, topology, and nodes. changer changes them for statements. local applies changes to
	// the replicas on this node.
	metadata    *meta.Keeper
	changer     *schemachange.Changer
	local       *reconcile.LocalReconciler
	builder     *backfill.Builder
	views       *view.Keeper
	definitions container.Definitions // parsed definitions of containers
}

// routes sends requests to replicas and to other nodes.
type routes struct {
	coordinator *coordinator.Coordinator
	replayer    *coordinator.Replayer
	// cluster and queries are nil on a standalone node. queries sends queries to other nodes.
	cluster *cluster
	queries *clusterquery.Client
	calls   rpc.Server // executes calls from other nodes
}

// operators changes partitions and nodes, either automatically or at the request of a human operator.
type operators struct {
	// standalone executes splits and merges on a standalone node. It is nil in a cluster. partitions executes the
	// requests of operators.
	standalone      *reconcile.Standalone
	partitions      *operations.Partitions
	maintenance     *operations.Maintenance
	splitController *autosplit.SplitController
}

// observation describes the node and the cluster to operators and clients.
type observation struct {
	// reports and diagnostics describe the cluster for virtual tables, status pages, and metrics.
	reports     *admin.Reporter
	diagnostics diagnostics.Diagnostics
	// usage and stats provide statistics for clients and operators.
	usage *stats.UsageReporter
	stats stats.Statistics
	info  catalog.NodeInfo
	audit *audit.Log // nil if the audit log is disabled
}

// frontends holds the servers for clients.
type frontends struct {
	cql     *cql.Server
	clients clients         // clients of cql
	account *account.Server // server for clients with account keys
}

// Start starts a node and returns when the node serves requests. ctx limits only the duration of the start.
func Start(ctx context.Context, o Options) (*Node, error) {
	o = o.WithDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		opts:  o,
		log:   o.Log,
		began: time.Now(),
		life:  lifecycle.New(o.Data, o.Log),
	}
	n.levels = feature.Range{Oldest: feature.Oldest, Newest: max(o.Testing.NewestLevel, feature.Newest)}
	n.clients.log = n.log
	var err error
	if n.compat, err = compat.Parse(o.Compatibility); err != nil {
		return nil, err
	}
	n.reserve = diskfs.NewReserve(process.LogDescriptors(n.log))
	n.life.OnClose(n.reserve.Close)
	n.boundConnections()
	if err := n.life.Start(ctx, n.start); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// boundConnections limits the number of clients according to the available file descriptors. If the limit is less than
// half of the configured number, it logs the limit.
func (n *Node) boundConnections() {
	wanted := n.opts.Limits.Connections
	n.tables, n.opts.Limits.Connections = process.ShareDescriptors(process.Descriptors(), wanted)
	got := n.opts.Limits.Connections
	n.opts.Limits.AddressConnections = min(n.opts.Limits.AddressConnections, got)
	if got < wanted/2 {
		n.log.LogAttrs(context.Background(), slog.LevelWarn,
			"the file descriptor limit is too low for limits.connections: raise ulimit -n",
			slog.Int("descriptors", process.Descriptors()), slog.Int("limits.connections", wanted),
			slog.Int("connections", got))
	}
}

func (n *Node) start(ctx context.Context) error {
	// Configuration errors and used ports are detected before the store is opened.
	var err error
	if n.credentials, err = loadCredentials(&n.opts, loginObserver{n}, n.log); err != nil {
		return err
	}
	n.clients.authority = n.authority
	n.Set, err = listeners.Open(ctx, &n.opts, n.reserve, n.log)
	n.life.OnClose(n.Set.Close)
	if err != nil {
		return err
	}
	if err := n.openStore(ctx); err != nil {
		return err
	}
	if err := n.openAudit(); err != nil {
		return err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "store opened", slog.String("data", n.opts.Data),
		slog.Duration("took", time.Since(n.began)))
	if err := n.openPartitions(ctx); err != nil {
		return err
	}
	if err := n.openMetadata(ctx); err != nil {
		return err
	}
	if err := n.maintainKeys(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // opening the store may have taken a long time
	}
	return n.serve()
}

// loginObserver writes login attempts to the audit log. The audit log is opened after the credentials are loaded.
type loginObserver struct{ *Node }

// LoginAttempted implements login.Observer.
func (n loginObserver) LoginAttempted(from netip.Addr, name string, outcome error) {
	n.audit.WriteLogin(n.info.RPC, from, name, outcome)
}

// auditDir is the subdirectory of the data directory that holds the audit log.
const auditDir = "audit"

// openAudit opens the audit log if it is enabled.
func (n *Node) openAudit() (err error) {
	o := &n.opts.Audit
	if !o.Enabled {
		return nil
	}
	o.Sealer = n.sealer()
	n.audit, err = audit.Open(*o, filepath.Join(n.opts.Data, auditDir), n.log)
	if err == nil {
		n.life.OnClose(n.audit.Close)
	}
	return err
}

// Reload reloads the certificates. SIGHUP has the same effect. If the reload fails, the node keeps the previous
// certificates and logs the error.
func (n *Node) Reload() error { return n.certificates.Reload() }

// RaiseLevel raises the feature level to the newest level that all nodes support. See operations.Maintenance.
func (n *Node) RaiseLevel(ctx context.Context) (feature.Level, error) {
	return n.maintenance.RaiseLevel(ctx)
}

// Failed returns a channel that is closed after a failure that stops the node (D3), or when the node has left its
// cluster (ErrLeft). Err then returns the cause.
func (n *Node) Failed() <-chan struct{} { return n.life.Failed() }

// Err returns the cause of the failure, or nil while the node serves.
func (n *Node) Err() error { return n.life.Err() }

// ErrLeft is the expected error of a node that was decommissioned and has no replicas.
var ErrLeft = lifecycle.ErrLeft

// Close stops the node (D2).
func (n *Node) Close() error { return n.life.Close() }
