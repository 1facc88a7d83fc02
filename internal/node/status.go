// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"github.com/ilion-db/ilion/internal/node/diagnostics"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// newReporter returns the source of the status pages and the metrics.
func (n *Node) newReporter() *admin.Reporter {
	out := &admin.Reporter{
		Process: admin.Process{Budget: int64(n.opts.Memory.Budget), Software: process.Version(),
			ClusterName: n.opts.ClusterName, Data: n.opts.Data, Commit: n.opts.Commit, Address: n.CQLAddr().String()},
		Certificates: n.certificates,
		Store:        n.store.Statistics, Directory: n.store.Directory, Host: n.host,
		Coordinator: n.coordinator, Catalog: n.catalog, Engine: n.Engine, CQL: n.cql,
		Records: n.metadata, Census: n.stats.PartitionCounts(), Growth: n.splitController,
		Statistics: n.stats, ChangeBuffer: n.changes, Views: n.views,
		Slow: n.Slow, Clock: n.clock,
	}
	if n.keys != nil {
		out.Encryption = n.keys
	}
	if n.account.REST != nil {
		out.REST = n.account.REST.Stats()
	}
	if n.audit != nil {
		out.Audit = n.audit
	}
	if n.logins != nil {
		out.Logins = append(out.Logins, n.logins)
	}
	if n.account.Logins != nil {
		out.Logins = append(out.Logins, n.account.Logins)
	}
	if c := n.cluster; c != nil {
		out.Cluster = &admin.Cluster{
			Self: c.self, Peers: c.peers, Log: c.log, Transport: c.transport,
			ClockSkew: n.opts.Cluster.ClockSkew,
			Node:      localNode{c},
		}
	}
	return out
}

// startDiagnostics creates the sources of virtual tables, status pages, and commands about clients.
func (n *Node) startDiagnostics() {
	self := n.store.Identity().Node
	n.reports = n.newReporter()
	n.diagnostics = diagnostics.Diagnostics{
		Sessions:     diagnostics.NewSessions(self, n.cql, n.account.REST, n.queries, n.log),
		SlowRequests: diagnostics.NewSlowRequests(self, n.Slow, n.queries),
		Locator: &diagnostics.Locator{Catalog: n.catalog, Release: n.compat, Clock: n.clock, Metadata: n.metadata,
			Host: n.host, Node: n.nodeRecord(), Queries: n.queries},
		Engine: n.Engine, RingReporter: n.reports,
	}
	n.diagnostics.Register(&n.calls)
	n.life.Background(func(ctx context.Context) { n.diagnostics.LogSlow(ctx, n.log) })
	n.info.Diagnostics = n.diagnostics
}
