// SPDX-License-Identifier: Apache-2.0

// Package engines builds the query engines of a node, which are the CQL engine, the container engine, and the scripts
// of containers. The engines share the memory and the processor slots for the evaluation of expressions. Start reading
// at New.
package engines

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/query/function"
	"github.com/ilion-db/ilion/internal/query/function/call"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/quota"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/server/audit"
)

// Options holds the parts of a node that the engines use.
type Options struct {
	Node        *options.Options
	Release     *compat.Release
	Catalog     *catalog.Catalog
	Coordinator *coordinator.Coordinator
	Changer     *schemachange.Changer
	Metadata    *meta.Keeper
	Builder     *backfill.Builder
	Host        *partition.Host
	// Definitions caches the parsed definitions of containers.
	Definitions *container.Definitions
	// Level determines the feature level.
	Level membership.Levels
	// Self is the ID of this node in a cluster, or nil on a standalone node.
	Self *topology.NodeID
	// Authority holds the roles. It is nil if authentication is disabled. Audit is the audit log, or nil.
	Authority *session.Authority
	Audit     *audit.Log
	// Sizes, Restores, Large, and Pressure report the state of other parts.
	Sizes    container.Sizes
	Restores container.Restores
	Large    *quota.Quota
	Pressure session.Pressure
	Clock    sched.Clock
	Log      *slog.Logger
}

// Engines are the query engines of a node.
type Engines struct {
	Engine     *session.Engine
	Containers *container.Engine
	Scripts    *script.Service // scripts of containers
	// Slow is the slow-query log.
	Slow *slowlog.Log
}

// New returns the engines. It makes the replicas on the node use these engines for transactions and aggregations.
func New(o Options) (*Engines, error) {
	scripts := script.New(script.Bounds{MemoryBytes: o.Node.Memory.ScriptBytes()})
	began := time.Now()
	// At least one processor remains for work other than the evaluation of expressions.
	slots := fairshare.NewSlots(max(1, runtime.GOMAXPROCS(0)-1), func() time.Duration { return time.Since(began) })
	memory := meter.NewPool(o.Node.EvaluationBytes())
	functions := function.New(scripts, o.Release, o.Node.UserFunctions)
	e := &Engines{Slow: slowlog.New(slowlog.Options{Threshold: *o.Node.SlowQueryLogTimeout})}
	so := o.session()
	so.Memory, so.Slots, so.Functions, so.Slow = memory, slots, functions, e.Slow
	e.Containers = container.New(container.Options{Catalog: o.Catalog, Coordinator: o.Coordinator, Store: o.Changer,
		Definitions: o.Definitions, Clock: o.Clock, ReadTimeout: o.Node.Limits.ReadTimeout,
		Builds: o.Builder, Sizes: o.Sizes, Restores: o.Restores,
		SortFreely: o.Node.REST.AllowUnindexedOrderBy, Levels: o.Level,
		Metadata: so.Metadata, Memory: memory, Slots: slots})
	e.Scripts = script.NewService(e.Containers, scripts)
	so.Calls = call.NewExecutor(e.Containers, e.Scripts)
	changes := ddl.New(o.Catalog, o.Changer, ddl.Options{Clock: o.Clock, Release: o.Release, MaskingOff: so.MaskingOff,
		KeepsCompact: !o.Node.DropsCompact(o.Release), Functions: functions})
	var err error
	if e.Engine, err = session.New(o.Catalog, o.Coordinator, changes, so); err != nil {
		return nil, err
	}
	o.Host.SetPrograms(e.Programs())
	o.Host.SetAggregator(e.Aggregator())
	return e, nil
}

// session returns the options of the CQL engine without the parts that the engines share.
func (o *Options) session() session.Options {
	limits := &o.Node.Limits
	so := session.Options{
		Release:    o.Release,
		MaskingOff: o.Node.MaskingOff(),
		Clock:      o.Clock,
		Limits: session.Limits{
			PreparedMax:      limits.PreparedStatements,
			PreparedBytesMax: int(o.Node.Memory.StatementBytes()),
			ResultBytesMax:   int(limits.ResultBytes),
			TextBytesMax:     o.Node.Memory.StatementBytes(),
			BatchBytesMax:    int(limits.BatchBytes),
			MutationBytesMax: int(limits.MutationBytes),
			RowBytesMax:      int(limits.RowBytes),
			ReadTimeout:      limits.ReadTimeout,
			ScanTimeout:      limits.ScanTimeout,
		},
		Clients:   o.Pressure,
		Large:     o.Large,
		Guards:    guardrail.New(o.Node.Guardrails),
		Builds:    o.Builder,
		Authority: o.Authority,
		Roles:     o.Changer,
	}
	if o.Audit != nil || o.Authority != nil {
		auditor := audit.CQLAuditor{Log: o.Audit}
		if o.Authority != nil {
			auditor.Security = audit.NewSecurityLogger(o.Log)
		}
		so.Auditor = auditor
	}
	if o.Self != nil { // a standalone node holds all data
		so.StaleAfterReturn, so.Metadata = true, o.Metadata
		so.Routing = o.routing()
	}
	return so
}

// routing returns the token metadata for drivers and the local reads of a cluster node's sessions.
func (o *Options) routing() *session.TopologyRouting {
	return &session.TopologyRouting{
		Coordinator: o.Coordinator, Node: *o.Self, Leaders: o.Host,
	}
}
