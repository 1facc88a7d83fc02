// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// statusView returns the data for status pages and metrics.
func (n *Node) statusView() *admin.Node {
	out := &admin.Node{
		ClusterName: n.opts.ClusterName, Data: n.opts.Data, Commit: n.opts.Commit, Address: n.CQLAddr().String(),
		Software: process.Version(), Expiring: n.certificates.Problems,
		Budget: int64(n.opts.Memory.Budget),
		Store:  n.store.Statistics, Directory: n.store.Directory, Host: n.host,
		Coordinator: n.coordinator, Catalog: n.catalog, Engine: n.engine, CQL: n.cql, TableName: n.tableName,
		Records: n.metadata, Census: n.stats.PartitionCounts(), Growth: n.splitController,
		Statistics: n.stats, Journal: n.changes.Stats, Views: n.views,
		Logins: n.loginCounts, Slow: n.slow,
	}
	if n.rest != nil {
		out.REST = n.rest.Stats()
	}
	if n.audit != nil {
		out.AuditDropped = n.audit.Dropped
	}
	if c := n.cluster; c != nil {
		out.Cluster = &admin.Cluster{
			Self: c.self, Peers: c.peers, Log: c.log, Transport: c.transport,
			ClockSkew: n.opts.Cluster.ClockSkew,
			Describe:  c.report,
		}
	}
	return out
}

// diagnostics implements catalog.Diagnostics.
type diagnostics struct{ n *Node }

// PreparedStatements implements catalog.Diagnostics.
func (d diagnostics) PreparedStatements() []catalog.PreparedStatement {
	return d.n.engine.PreparedStatements()
}

// BusiestSessions implements catalog.Diagnostics.
func (d diagnostics) BusiestSessions(ctx context.Context) catalog.Sessions {
	return d.n.sessions(ctx, sessionsDefault)
}

// SlowQueries implements catalog.Diagnostics.
func (d diagnostics) SlowQueries(ctx context.Context) slowlog.Report { return d.n.slowQueries(ctx) }

// Ring implements catalog.Diagnostics.
func (d diagnostics) Ring() []catalog.RingNode { return d.n.statusView().Ring() }

// Clients implements catalog.Diagnostics.
func (d diagnostics) Clients() []catalog.Client {
	var out []catalog.Client
	for _, c := range d.n.cql.Clients() {
		out = append(out, catalog.Client{
			Remote: c.Remote, User: c.User, Version: c.Version, DriverName: c.DriverName,
			DriverVersion: c.DriverVersion, Options: c.Options, Keyspace: c.Keyspace,
			Encrypted: c.Encrypted, Requests: c.Requests,
		})
	}
	return out
}
