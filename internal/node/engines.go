// SPDX-License-Identifier: Apache-2.0

package node

import (
	"runtime"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/node/backup"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/query/function"
	"github.com/ilion-db/ilion/internal/query/function/call"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/replica/quota"
	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/internal/server/cql"
)

// openEngines creates the engines that execute CQL statements, operations on containers, and scripts.
func (n *Node) openEngines(large *quota.Quota, restorer *backup.Restorer) error {
	maskingOff := n.opts.MaskingOff()
	engine := script.New(script.Bounds{MemoryBytes: n.opts.Memory.ScriptBytes()})
	began := time.Now()
	// At least one processor remains for work other than evaluating expressions.
	slots := fairshare.NewSlots(max(1, runtime.GOMAXPROCS(0)-1), func() time.Duration { return time.Since(began) })
	memory := meter.NewPool(n.opts.EvaluationBytes())
	functions := function.New(engine, n.compat, n.opts.UserFunctions)
	d := ddl.New(n.catalog, n.changer, ddl.Options{Now: n.clock.Now, Release: n.compat, MaskingOff: maskingOff,
		KeepsCompact: !n.opts.DropsCompact(n.compat), Functions: functions})
	options := session.Options{
		Release:    n.compat,
		MaskingOff: maskingOff,
		Now:        n.clock.Now,
		Limits: session.Limits{
			PreparedMax:      n.opts.Limits.PreparedStatements,
			PreparedBytesMax: int(n.opts.Memory.StatementBytes()),
			ResultBytesMax:   int(n.opts.Limits.ResultBytes),
			TextBytesMax:     n.opts.Memory.StatementBytes(),
			BatchBytesMax:    int(n.opts.Limits.BatchBytes),
			MutationBytesMax: int(n.opts.Limits.MutationBytes),
			RowBytesMax:      int(n.opts.Limits.RowBytes),
			ReadTimeout:      n.opts.Limits.ReadTimeout,
			ScanTimeout:      n.opts.Limits.ScanTimeout,
		},
		Memory:                 memory,
		Slots:                  slots,
		MemoryPressure:         func() bool { return n.cql.Pressed() },
		DescribeLargePartition: large.Large,
		Guards:                 guardrail.New(n.opts.Guardrails),
		Building:               n.builder.Building,
		StaleAfterReturn:       n.cluster != nil,
		Authority:              n.authority,
		Roles:                  n.changer,
		Functions:              functions,
	}
	n.slow = slowlog.New(slowlog.Options{Threshold: *n.opts.SlowQueryLogTimeout})
	options.Slow = n.slow
	if n.cluster != nil {
		options.ReadBarrier = n.metadata.AwaitLatest
	}
	if n.audit != nil || n.authority != nil {
		auditor := audit.CQLAuditor{Log: n.audit}
		if n.authority != nil {
			auditor.Security = audit.NewSecurityLogger(n.log)
		}
		options.Auditor = auditor
	}
	if n.cluster != nil { // a standalone node holds all data
		options.Routing = newRouting(n.cluster.self, n.coordinator, n.host)
	}
	n.containers = container.New(container.Options{Catalog: n.catalog, Coordinator: n.coordinator, Store: n.changer,
		Definitions: &n.definitions, Now: n.clock.Now, ReadTimeout: n.opts.Limits.ReadTimeout,
		Builds: n.builder, Sizes: n.usage.ContainerSizes, Restoring: restorer.Restoring,
		SortFreely: n.opts.REST.AllowUnindexedOrderBy, Level: n.featureLevel.Current,
		Newest: options.ReadBarrier, Memory: memory, Slots: slots})
	n.scripts = script.NewService(n.containers, engine)
	options.Calls = call.NewExecutor(n.containers, n.scripts)
	var err error
	n.engine, err = session.New(n.catalog, n.coordinator, d, options)
	if err != nil {
		return err
	}
	n.life.OnClose(func() error { n.engine.Close(); return nil })
	n.host.SetPrograms(programDispatcher{n.engine.Programs(), n.containers})
	n.host.SetAggregator(aggregationDispatcher{n.containers})
	return nil
}

// newCQLServer creates the server of CQL clients.
func (n *Node) newCQLServer() {
	o := cql.Options{
		TLS:                   n.certificates.Clients(),
		ConnectionsMax:        n.opts.Limits.Connections,
		AddressConnectionsMax: n.opts.Limits.AddressConnections,
		IdleTimeout:           n.opts.Limits.IdleTimeout,
		WaitMax:               n.opts.Limits.QueueDelayTarget,
		FrameBytesMax:         int(n.opts.Limits.FrameBytes),
		ConnectionInFlightMax: n.opts.Limits.RequestsPerConnection,
		InFlightMax:           n.opts.Limits.Requests,
		InFlightBytesMax:      int64(n.opts.Limits.RequestBytes),
		BacklogMax:            int64(n.opts.Limits.RequestBytes),
		CQLVersion:            n.compat.CQLVersion,
		Closed:                n.clients.logClosed,
		LowPriority:           n.engine.LowPriority,
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
	n.cql = cql.New(func(c session.Client) cql.Session { return n.engine.NewSession(c) }, o)
}
