// SPDX-License-Identifier: Apache-2.0

// Package node is the composition root: it builds a database node of its parts, starts them in order, and stops them in
// the reverse order. Nothing else knows how the parts fit together.
//
// Guarantees: (D1) Start returns when the node serves requests, or not at all: a failed start leaves nothing behind;
// (D2) Close finishes the requests under way, syncs what was written, and leaves no goroutine but those that a broken
// disk holds; (D3) after a failure of the disk the node stops itself (Failed) rather than serve on.
//
// Start at Start; open.go builds what data needs, cluster.go what other nodes need, serve.go what clients need;
// metrics.go and status.go show what goes on.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/growth"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/release"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/script"
	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/query/view"
	"github.com/ilion-db/ilion/internal/replica/census"
	"github.com/ilion-db/ilion/internal/replica/guard"
	"github.com/ilion-db/ilion/internal/replica/journal"
	"github.com/ilion-db/ilion/internal/replica/moment"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/internal/server/cql"
	"github.com/ilion-db/ilion/internal/server/login"
	"github.com/ilion-db/ilion/internal/server/rest"
)

const (
	// drainTime is how long Close waits for requests under way.
	drainTime = 10 * time.Second
	// failedTime is how long Close waits for anything once the node has failed: calls of a broken store may never
	// return.
	failedTime = 3 * time.Second
	// memoryDir is where an in-memory node believes its data to be.
	memoryDir = "memory"
)

// Node is a running node.
type Node struct {
	opts Options
	log  *slog.Logger
	// answers is the release of Cassandra whose answers are given.
	answers *release.Release

	store *storage.Store
	host  *partition.Host
	// moments are what backups read, journal what archives do. run names this process where a later one may have other
	// entries in the places of those that it has lost; described is what a backup was told last of the cluster.
	moments   moment.Keeper
	journal   *journal.Journal
	run       string
	described atomic.Pointer[described]

	coordinator *coordinator.Coordinator
	catalog     *catalog.Catalog
	// scales measure what the replicas here take.
	// records are schema, map and nodes; changer changes them as statements ask, installer has this node follow them,
	// and local its replicas.
	scales scales
	advice advice
	// hots counts how often partitions became hot.
	hots      atomic.Uint64
	records   *meta.Keeper
	changer   *schemachange.Changer
	installer *schemachange.Installer
	local     *localReplicas
	builder   *backfill.Builder
	replayer  *coordinator.Replayer
	// cluster is nil for a node that stands alone.
	cluster *cluster
	census  *census.Census
	largest *census.Largest
	growth  *growth.Watch
	engine  *session.Engine
	// containers serves what is stored as items; definitions are what it has parsed.
	containers  *container.Engine
	scripts     *script.Service // of containers
	restores    atomic.Pointer[restoringTables]
	definitions container.Definitions
	views       *view.Keeper
	cql         *cql.Server
	// gated is cql once that is there, for what runs before.
	gated       atomic.Pointer[cql.Server]
	reserve     *guard.Reserve // of descriptors
	cqlListener net.Listener
	webListener net.Listener
	// cosmosListener is nil where nobody logs in with a key of the account.
	cosmosListener net.Listener
	// restListener is nil where nobody is served containers over HTTP.
	restListener net.Listener
	rest         *rest.Server
	keyring      keyring
	// nodeListener is for other nodes.
	nodeListener net.Listener
	info         catalog.NodeInfo
	began        time.Time
	certificates certificates
	nodeTLS      *tls.Config
	nodeID       *topology.NodeID // of the certificate
	secret       []byte           // of the cluster; nil: certificates stand for it, or the node stands alone
	levels       feature.Range    // what this build understands
	tables       int              // how many tables the store may keep open
	// logins and authority are nil where everybody comes in and may do everything.
	logins    *login.Checker
	accounts  *login.Account // nil without a cosmosListener
	authority *session.Authority

	slow    *slowlog.Log // requests that took long
	audit   *audit.Log   // nil: none
	denials notices
	serving atomic.Bool // the start has come to its end

	copying sync.Mutex // held while a checkpoint is made
	// splitting is held while a node that stands alone splits partitions.
	splitting sync.Mutex
	lastSlow  atomic.Int64   // the second in which the end of a slow client's connection was logged last
	wg        sync.WaitGroup // the servers
	closers   []func() error // in the order of starting

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
	n := &Node{
		opts:   o,
		log:    o.Log,
		began:  time.Now(),
		levels: feature.Range{Oldest: feature.Oldest, Newest: max(o.newest, feature.Newest)},
		failed: make(chan struct{}),
	}
	var err error
	if n.answers, err = release.Parse(o.Compatibility); err != nil {
		return nil, err
	}
	n.reserve = guard.NewReserve(n.descriptorsLow)
	n.closers = append(n.closers, n.reserve.Close)
	n.boundConnections()
	if err := n.startUnlessFailed(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// boundConnections lets in no more clients than there are descriptors for, and says so if that is less than half of
// what was wanted.
func (n *Node) boundConnections() {
	wanted := n.opts.Limits.Connections
	n.tables, n.opts.Limits.Connections = shareDescriptors(descriptors(), wanted)
	got := n.opts.Limits.Connections
	n.opts.Limits.AddressConnections = min(n.opts.Limits.AddressConnections, got)
	if got < wanted/2 {
		n.log.LogAttrs(context.Background(), slog.LevelWarn,
			"the process may open too few files for limits.connections: raise ulimit -n",
			slog.Int("descriptors", descriptors()), slog.Int("limits.connections", wanted),
			slog.Int("connections", got))
	}
}

// descriptorsLow says that clients have taken descriptors that the store needs, and when that is over.
func (n *Node) descriptorsLow(low bool) {
	if low {
		n.log.LogAttrs(context.Background(), slog.LevelWarn, "the process has no file descriptors left: the store "+
			"goes on with its reserve, and nobody else is let in; raise ulimit -n, or lower limits.connections")
		return
	}
	n.log.LogAttrs(context.Background(), slog.LevelInfo, "there are enough file descriptors again")
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
	started := make(chan error, 1)
	go func() { started <- n.start(ctx) }()
	var err error
	select {
	case err = <-started:
	case <-n.failed: // calls of a broken store may never return
		select {
		case err = <-started:
		case <-time.After(failedTime):
			return n.failure
		}
	}
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
	if err := n.openAudit(); err != nil {
		return err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "store opened", slog.String("data", n.opts.Data),
		slog.Duration("took", time.Since(n.began)))
	if err := n.openPartitions(ctx); err != nil {
		return err
	}
	if err := n.openRecords(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // the store may have taken long to open
	}
	err := n.serve()
	n.serving.Store(err == nil)
	return err
}

// loadSecrets reads what clients have to prove and how the node proves its identity.
func (n *Node) loadSecrets() (err error) {
	n.certificates.changed(n.certificateFiles()) // before they are read, so that no change is missed
	clients, err := n.clientTLS()
	if err != nil {
		return err
	}
	n.certificates.clients.Store(clients)
	if n.nodeTLS, n.nodeID, err = n.opts.Cluster.TLS.config(); err != nil {
		return err
	}
	lifetimes := n.lifetimes(clients, n.nodeTLS)
	n.certificates.lifetimes.Store(&lifetimes)
	n.logExpiry(context.Background())
	if err := n.readJoinSecret(); err != nil {
		return err
	}
	n.warnOfOpenKeys()
	if !n.opts.Auth.on() {
		return nil
	}
	configured := func(name string) bool { return n.logins.Configured(name) }
	n.authority = session.NewAuthority(n.opts.Region, configured, n.opts.Auth.EndChangedLogins)
	n.logins, err = login.New(login.Options{Users: n.opts.Auth.Users, State: n.authority.State, Log: n.log,
		Told: n.auditLogin})
	return err
}

func (n *Node) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if n.cqlListener, err = lc.Listen(ctx, "tcp", n.opts.CQL); err != nil {
		return fmt.Errorf("listen for CQL clients: %w", err)
	}
	n.cqlListener = n.reserve.Listener(n.cqlListener)
	n.closers = append(n.closers, closeQuietly(n.cqlListener))
	if n.opts.Cluster.Internal != "" {
		if n.nodeListener, err = lc.Listen(ctx, "tcp", n.opts.Cluster.Internal); err != nil {
			return fmt.Errorf("listen for other nodes: %w", err)
		}
		n.nodeListener = n.reserve.Listener(n.nodeListener)
		n.closers = append(n.closers, closeQuietly(n.nodeListener))
	}
	if err := n.listenCosmos(ctx); err != nil {
		return err
	}
	if err := n.listenREST(ctx); err != nil {
		return err
	}
	if n.opts.HTTP == "off" {
		return nil
	}
	if n.webListener, err = lc.Listen(ctx, "tcp", n.opts.HTTP); err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	n.webListener = n.reserve.Listener(n.webListener)
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

// ReadyLine is what `ilion start` prints once the node serves requests.
func (n *Node) ReadyLine() string {
	line := "Ilion is ready: CQL on " + n.CQLAddr().String()
	if a := n.HTTPAddr(); a != nil {
		line += ", HTTP on " + a.String()
	}
	if a := n.RESTAddr(); a != nil {
		line += ", REST on " + a.String()
	}
	if a := n.CosmosAddr(); a != nil {
		line += ", CQL for account keys on " + a.String()
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

// Failed is closed when the node has met a failure it must not go on with (D3), or has left its cluster (ErrLeft); Err
// then has it.
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

// ErrLeft is why a node ends that was told to leave its cluster and has no replica any more: all is well.
var ErrLeft = errors.New("the node has left the cluster: its data may be removed")

func (n *Node) fail(err error) {
	n.failOnce.Do(func() {
		err = explainFailure(n.opts.Data, err)
		n.failure = err
		if errors.Is(err, ErrLeft) {
			n.log.LogAttrs(context.Background(), slog.LevelInfo, err.Error())
		} else {
			n.log.LogAttrs(context.Background(), slog.LevelError, "the node stops", slog.String("error", err.Error()))
		}
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
			if n.serving.Load() && n.closeErr == nil && n.Err() == nil {
				n.log.LogAttrs(context.Background(), slog.LevelInfo, "stopped in order")
			}
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
