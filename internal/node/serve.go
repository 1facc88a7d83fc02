// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/lending"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/node/account"
	"github.com/ilion-db/ilion/internal/node/backup"
	"github.com/ilion-db/ilion/internal/node/engines"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/node/stats"
	"github.com/ilion-db/ilion/internal/node/sweep"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cql"
)

// serve starts all listeners for clients.
func (n *Node) serve() error {
	n.setNodeInfo()
	n.life.Background(n.usage.FindLargest)
	controllers := n.newControllers()
	n.splitController = controllers.Splits
	n.splitController.Register(&n.calls)
	restorer := n.newRestorer()
	if err := n.openEngines(restorer); err != nil {
		return err
	}
	n.openServers()
	n.startStatistics()
	n.startDiagnostics()
	lender := lending.New(n.metadata, n.host, n.queries)
	if n.opts.Limits.Lending {
		lender.Register(&n.calls)
	}
	archives := backup.NewService(n.newBackupServer(), restorer)
	n.clients.server.Store(n.cql)
	n.life.OnClose(func() error { n.cql.Close(); return nil }) // the start may fail early
	n.life.Background(n.views.Run)
	n.life.Background(n.builder.Run)
	if err := n.ensureRoles(); err != nil {
		return err
	}
	if n.cluster != nil {
		n.cluster.start()
		n.life.OnClose(n.cluster.stop)
	}
	// Clients are served until they disconnect. At this point, the node leads no partition but still has connections
	// to all other nodes.
	n.life.OnClose(n.drainClients)
	if n.cluster != nil {
		n.life.OnClose(n.cluster.handover)
	}
	n.life.Background(n.replayer.Run)
	n.life.Serve(func() error { return n.cql.Serve(n.CQL) })
	if err := n.account.Start(n.life, n.cluster == nil); err != nil {
		return err
	}
	if err := n.serveHTTP(archives); err != nil {
		return err
	}
	n.life.Background(n.certificates.Watch)
	sweeper := &sweep.Sweeper{Store: n.store, Host: n.host, Coordinator: n.coordinator, Catalog: n.catalog,
		Clock: n.clock, Clients: &n.clients, KeysPerSecond: n.opts.Storage.SweepKeys,
		Log: n.log}
	n.life.Background(sweeper.Run)
	n.life.Background(controllers.Run)
	if n.opts.Limits.Lending {
		n.life.Background(lender.Run)
	}
	n.life.Watch(n.host.Failed)
	n.logStart()
	return nil
}

// openEngines opens the query engines.
func (n *Node) openEngines(restorer *backup.Restorer) (err error) {
	large := n.newQuota()
	n.life.Background(large.Run)
	o := engines.Options{Node: &n.opts, Release: n.compat, Catalog: n.catalog, Coordinator: n.coordinator,
		Changer: n.changer, Metadata: n.metadata, Builder: n.builder, Host: n.host, Definitions: &n.definitions,
		Level: n.featureLevel, Authority: n.authority, Audit: n.audit, Sizes: n.usage, Restores: restorer,
		Large: large, Pressure: &n.clients, Clock: n.clock, Log: n.log}
	if n.cluster != nil {
		o.Self = &n.cluster.self
	}
	if n.Engines, err = engines.New(o); err == nil {
		n.life.OnClose(func() error { n.Engine.Close(); return nil })
		n.catalog.Subscribe(n.clients.announceSchema) // the engine must come first
	}
	return err
}

// openServers opens the servers for CQL and REST clients. The servers accept no clients yet.
func (n *Node) openServers() {
	limits := &n.opts.Limits
	o := cql.Options{
		TLS:                   n.certificates.Clients(),
		ConnectionsMax:        limits.Connections,
		AddressConnectionsMax: limits.AddressConnections,
		IdleTimeout:           limits.IdleTimeout,
		WaitMax:               limits.QueueDelayTarget,
		FrameBytesMax:         int(limits.FrameBytes),
		ConnectionInFlightMax: limits.RequestsPerConnection,
		InFlightMax:           limits.Requests,
		InFlightBytesMax:      int64(limits.RequestBytes),
		BacklogMax:            int64(limits.RequestBytes),
		CQLVersion:            n.compat.CQLVersion,
		Closed:                n.clients.logClosed,
		LowPriority:           n.Engine.LowPriority,
	}
	if n.logins != nil {
		o.Authenticator = n.logins
		if n.opts.Auth.Certificates != "" {
			o.CertificateRole = n.roleLogin.CertificateRole
		}
	}
	if n.cluster != nil {
		o.Tablets, o.Workers = true, clusterWorkers
	}
	n.cql = cql.New(func(c session.Client) cql.Session { return n.Engine.NewSession(c) }, o)
	n.account = account.New(account.Options{Node: &n.opts, Listeners: n.Set, Metadata: n.metadata, CQL: n.cql,
		Containers: n.Containers, Scripts: n.Scripts, TLS: n.certificates.Clients(), Audit: n.audit,
		Logins: loginObserver{n}, Clock: n.clock, Log: n.log})
}

// drainClients closes each client connection when the connection is idle (see cql.Server.Shutdown).
func (n *Node) drainClients() error {
	if n.cluster != nil {
		n.cluster.events.AnnounceStop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	n.cql.Shutdown(ctx)
	return nil
}

// setNodeInfo sets the information about this node that does not change while the node runs.
func (n *Node) setNodeInfo() {
	id := n.store.Identity()
	addr := n.CQL.Addr().(*net.TCPAddr).AddrPort()
	n.info = catalog.NodeInfo{
		Release: n.compat,
		Endpoint: catalog.Endpoint{
			HostID: schema.UUID(id.Node), Datacenter: n.opts.Region, Rack: n.opts.Zone,
			Listen: addr, RPC: addr, Tokens: catalog.RingTokens(id.Node),
		},
		ClusterName: n.opts.ClusterName,
		Generation:  int32(n.began.Unix()),
		Settings:    n.opts.Settings(n.compat, int(addr.Port())),
	}
}

// newBackupServer returns the server of backups.
func (n *Node) newBackupServer() *backup.Server {
	id := n.store.Identity()
	s := &backup.Server{
		Identity: backup.Identity{Cluster: id.Node, Node: id.Node, Process: uuid.NewString(),
			Software: process.Version()},
		Metadata: n.metadata, Host: n.host, Changes: n.changes, Catalog: n.catalog, Queries: n.queries,
		Clock: n.clock,
	}
	if n.cluster != nil {
		s.Identity.Cluster, s.Identity.Process = id.Cluster, ""
	}
	s.Register(&n.calls)
	n.life.OnClose(s.Close)
	return s
}

// newRestorer returns the restorer of backups.
func (n *Node) newRestorer() *backup.Restorer {
	return &backup.Restorer{Metadata: n.metadata, Catalog: n.catalog, Coordinator: n.coordinator, Changer: n.changer,
		Builder: n.builder, Release: n.compat, Level: n.featureLevel.Current}
}

// startStatistics starts collecting statistics for clients and operators.
func (n *Node) startStatistics() {
	sources := n.statsSources()
	sizes := stats.NewSizeEstimator(sources, n.store.Identity().Node, n.info.Tokens)
	n.stats = stats.Statistics{
		UsageReporter: n.usage, UserReporter: stats.NewUserReporter(n.cql, n.queries), SizeEstimator: sizes,
		TableSampler: stats.NewTableSampler(sources, n.Engine, n.views),
		Advisor:      stats.NewAdvisor(sources, n.Engine, n.usage, sizes),
	}
	n.stats.Register(&n.calls)
	n.life.Background(sizes.CountPartitions)
	n.info.Statistics = n.stats
}

// nodeInfo returns the information about this node and the other nodes for clients.
func (n *Node) nodeInfo() catalog.NodeInfo {
	if n.cluster != nil {
		return n.info.WithNodes(n.metadata.State(), n.cluster.self, n.cluster.peers)
	}
	info := n.info
	info.Metadata = n.metadata.State()
	return info
}
