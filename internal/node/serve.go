// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/call"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/function"
	"github.com/ilion-db/ilion/internal/query/guardrail"
	"github.com/ilion-db/ilion/internal/query/script"
	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/server/cql"
)

// serve starts everything that clients see.
func (n *Node) serve() error {
	n.describe()
	n.openCensus()
	n.inBackground(n.census.Run)
	n.inBackground(n.largest.Run)
	n.growth = n.newGrowth()
	large := n.newQuota()
	n.inBackground(large.Run)
	maskingOff := n.opts.Masking != nil && !*n.opts.Masking
	engine := script.New(script.Bounds{})
	began := time.Now()
	// One processor at least is left to everything that is not the evaluation of expressions.
	slots := share.NewSlots(max(1, runtime.GOMAXPROCS(0)-1), func() time.Duration { return time.Since(began) })
	memory := meter.NewPool(4 * int64(n.opts.Limits.ResultBytes))
	functions := function.New(engine, n.answers, n.opts.UserFunctions)
	d := ddl.New(n.catalog, n.changer, ddl.Options{Now: n.clock(), Release: n.answers, MaskingOff: maskingOff,
		KeepsCompact: !n.dropsCompact(), Functions: functions})
	options := session.Options{
		Release:                n.answers,
		MaskingOff:             maskingOff,
		Now:                    n.clock(),
		PreparedMax:            n.opts.Limits.PreparedStatements,
		ResultBytesMax:         int(n.opts.Limits.ResultBytes),
		Memory:                 memory,
		Slots:                  slots,
		TextBytesMax:           n.opts.Memory.statementBytes(),
		PreparedBytesMax:       int(n.opts.Memory.statementBytes()),
		MemoryPressure:         func() bool { return n.cql.Pressed() },
		BatchBytesMax:          int(n.opts.Limits.BatchBytes),
		MutationBytesMax:       int(n.opts.Limits.MutationBytes),
		RowBytesMax:            int(n.opts.Limits.RowBytes),
		DescribeLargePartition: large.Large,
		ReadTimeout:            n.opts.Limits.ReadTimeout,
		ScanTimeout:            n.opts.Limits.ScanTimeout,
		Guards:                 guardrail.New(n.opts.Guardrails),
		Building:               n.builder.Building,
		StaleAfterReturn:       n.cluster != nil,
		Authority:              n.authority,
		Roles:                  n.changer,
		Functions:              functions,
	}
	n.slow = slowlog.New(slowlog.Options{Threshold: *n.opts.SlowQueryLogTimeout})
	options.Slow = n.slow
	n.inBackground(n.logSlow)
	if n.cluster != nil {
		options.ReadBarrier = n.newest
	}
	if n.audit != nil {
		options.Audit = n.auditRequest
	}
	if n.authority != nil {
		options.AuditSecurity = n.notable
	}
	if r := n.routing(); r != nil {
		options.Routing, options.ServesLocally = r, n.coordinator.Near
	}
	n.containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, Now: n.clock(), ReadTimeout: n.opts.Limits.ReadTimeout,
		Building: n.builder.Building, Progress: n.builder.Progress, SortFreely: n.opts.REST.AllowUnindexedOrderBy,
		Sizes: n.containerSizes, Restoring: n.restoring,
		Indexes: func() bool { return n.levelOf(n.records.State()) >= container.IndexLevel },
		Newest:  options.ReadBarrier, Memory: memory, Slots: slots})
	n.scripts = script.NewService(n.containers, engine)
	options.Calls = call.NewExecutor(n.containers, n.scripts)
	var err error
	n.engine, err = session.New(n.catalog, n.coordinator, d, options)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, func() error { n.engine.Close(); return nil })
	n.host.SetPrograms(programs{n.engine.Programs(), n.containers})
	n.host.SetFolds(folds{n.containers})
	o := cql.Options{
		TLS:                   n.dynamicTLS(),
		ConnectionsMax:        n.opts.Limits.Connections,
		AddressConnectionsMax: n.opts.Limits.AddressConnections,
		IdleTimeout:           n.opts.Limits.IdleTimeout,
		WaitMax:               n.opts.Limits.QueueDelayTarget,
		FrameBytesMax:         int(n.opts.Limits.FrameBytes),
		ConnectionInFlightMax: n.opts.Limits.RequestsPerConnection,
		InFlightMax:           n.opts.Limits.Requests,
		InFlightBytesMax:      int64(n.opts.Limits.RequestBytes),
		BacklogMax:            int64(n.opts.Limits.RequestBytes),
		CQLVersion:            n.answers.CQLVersion,
		Events:                cql.Events{Closed: n.clientClosed},
		LowPriority:           n.engine.LowPriority,
	}
	if n.logins != nil {
		o.Authenticator = n.logins
		if n.opts.Auth.Certificates != "" {
			o.CertificateRole = n.certificateRole
		}
	}
	if n.cluster != nil {
		o.Tablets, o.Workers = true, clusterWorkers
	}
	n.cql = cql.New(func(c session.Client) cql.Session { return n.engine.NewSession(c) }, o)
	n.gated.Store(n.cql)
	n.closers = append(n.closers, func() error { n.cql.Close(); return nil }) // if the start fails before drain
	n.inBackground(n.views.Run)
	n.inBackground(n.builder.Run)
	if err := n.ensureRoles(); err != nil {
		return err
	}
	if n.cluster != nil {
		n.cluster.start()
		n.closers = append(n.closers, n.cluster.stop)
	}
	// Clients are served by a node that leads nothing any more and still knows all others, until they have gone.
	n.closers = append(n.closers, n.drain)
	if n.cluster != nil {
		n.closers = append(n.closers, n.cluster.handover)
	}
	n.inBackground(n.replayer.Run)
	n.wg.Go(func() {
		if err := n.cql.Serve(n.cqlListener); err != nil {
			n.fail(err)
		}
	})
	if n.restListener != nil || n.cosmosListener != nil {
		if err := n.ensureRESTKeys(); err != nil {
			return err
		}
	}
	n.serveCosmos()
	if err := n.serveREST(); err != nil {
		return err
	}
	if err := n.serveHTTP(); err != nil {
		return err
	}
	n.inBackground(n.watchCertificates)
	n.inBackground(n.sweep)
	n.inBackground(n.growth.Run)
	n.inBackground(n.newMerger().Run)
	n.inBackground(n.newProvider().Run)
	if n.opts.Limits.Lending {
		n.inBackground(n.lend)
	}
	n.inBackground(n.watch)
	n.logStart()
	return nil
}

// clientClosed logs why the server has ended a client's connection. Strangers and slow clients may be many: there is at
// most one line a second at the usual level, and ilion_cql_connections_slow_total counts them.
func (n *Node) clientClosed(remote netip.AddrPort, reason error) {
	if reason == nil {
		return
	}
	level, now, last := slog.LevelDebug, time.Now().Unix(), n.lastSlow.Load()
	if errors.Is(reason, cql.ErrSlowClient) && last != now && n.lastSlow.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	n.log.LogAttrs(context.Background(), level, "client connection closed", slog.String("client", remote.String()),
		slog.String("reason", reason.Error()))
}

// drain closes each connection of a client when it is idle: see cql.Server.Shutdown.
func (n *Node) drain() error {
	if n.cluster != nil {
		n.cluster.tellLeaving()
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	n.cql.Shutdown(ctx)
	return nil
}

// inBackground runs f until the node stops.
func (n *Node) inBackground(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	n.closers = append(n.closers, func() error {
		cancel()
		wg.Wait()
		return nil
	})
}

// clock is the wall clock as far as the clocks of a quorum allow it. It says when what a client writes now is to
// expire, and what has expired for one that reads.
func (n *Node) clock() func() time.Time {
	if n.opts.now != nil {
		return n.opts.now
	}
	if n.cluster != nil {
		return n.cluster.peers.Now
	}
	return time.Now
}

// past is an instant, in seconds, that has passed: by the clocks of a quorum, or by its own for a node that stands
// alone.
func (n *Node) past() int64 {
	if n.cluster != nil {
		return n.cluster.peers.Past().Unix()
	}
	return time.Now().Unix()
}

// short reports whether this machine is asked for more than it does, so that what runs in the background gives way.
func (n *Node) short() bool {
	s := n.gated.Load()
	return s != nil && s.Gate().Closed
}

// sweep removes what nobody can see any more, until ctx ends.
func (n *Node) sweep(ctx context.Context) {
	n.store.RunSweeper(ctx, storage.SweeperOptions{
		Now:   n.past,
		Spans: n.sweepable,
		// What is due is known; looking at everything else finds little.
		DuePerSecond: n.opts.Storage.SweepKeys, KeysPerSecond: n.opts.Storage.SweepKeys / 5,
		Recorded: func(ctx context.Context) (storage.Recorded, error) {
			all, err := n.coordinator.RecordedBatches(ctx)
			return func(batch [16]byte) bool { return all[batch] }, err
		},
		Pressed: n.short,
		Propose: func(ctx context.Context, sw command.Sweep) error {
			t := n.catalog.Snapshot().TableByID(sw.Table)
			return n.host.Sweep(ctx, &sw, t != nil && t.Logged())
		},
		Error: func(err error) {
			level := slog.LevelWarn
			if _, ok := errors.AsType[*partition.WrongRange](err); ok {
				level = slog.LevelDebug // it has split or merged meanwhile, and is swept later
			}
			n.log.LogAttrs(ctx, level, "sweep failed", slog.String("error", err.Error()))
		},
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
		n.cql.SchemaChanged(session.SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace,
			Name: e.Name, Args: e.ArgList()})
	}
}

// describe fixes what clients are told of this node as long as it runs.
func (n *Node) describe() {
	id := n.store.Identity()
	addr := n.cqlListener.Addr().(*net.TCPAddr).AddrPort()
	n.info = catalog.NodeInfo{
		Release: n.answers,
		Endpoint: catalog.Endpoint{
			HostID: schema.UUID(id.Node), Datacenter: n.opts.Region, Rack: n.opts.Zone,
			Listen: addr, RPC: addr, Tokens: ringTokens(id.Node),
		},
		ClusterName: n.opts.ClusterName,
		Generation:  int32(n.began.Unix()),
		Clients:     n.clients,
		Prepared:    func() []catalog.PreparedStatement { return n.engine.PreparedStatements() },
		Settings:    n.settings,
		Sizes:       n.sizes,
		Roles:       func() *access.State { return n.records.State().Roles },
		Latency:     n.latencyShown,
		Records:     n.records.State,
		Replica:     n.replicaShown,
		Advice:      n.adviceShown,
		Usage:       n.usage,
		Users:       n.users,
		ViewLags:    n.viewLags,
		Tables:      n.tableFigures,
		Sessions:    func(ctx context.Context) catalog.Sessions { return n.sessions(ctx, sessionsMost) },
		Slow:        n.slowQueries,
		Ring:        func() []catalog.RingNode { return n.shown().Ring() },
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
	info.Peers, info.EffectiveReplication = others, func() int { return placement.Effective(n.records.State()) }
	return info
}
