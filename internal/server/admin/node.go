// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/control/growth"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/query/view"
	"github.com/ilion-db/ilion/internal/replica/census"
	"github.com/ilion-db/ilion/internal/replica/journal"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/server/cql"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// Node is the parts of a node whose state and figures are shown. Nothing is counted twice: each figure is read from
// the part that keeps it when it is asked for.
type Node struct {
	// Budget is the memory budget in bytes.
	Budget int64
	// Software is the version of the build.
	Software string
	// Expiring says in words which certificates of the node expire soon, or have expired; nil: there are none.
	Expiring func() []string
	// ClusterName, Data and Commit are as configured, Address is where CQL clients connect.
	ClusterName, Data, Commit, Address string

	Store       *storage.Statistics
	Directory   *storage.Directory
	Host        *partition.Host
	Census      *census.Census
	Growth      *growth.Watch
	Coordinator *coordinator.Coordinator
	Catalog     *catalog.Catalog
	Engine      *session.Engine
	CQL         *cql.Server
	// REST counts what containers are asked for over HTTP; nil where they are not served.
	REST *rest.Stats
	// Views has views follow; nil in tests that have none.
	Views *view.Keeper
	// Logins counts those that came in, failed and were refused; nil where nobody has to log in.
	Logins func() (succeeded, failed, refused uint64)
	// AuditDropped counts the entries of the audit log that were not written; nil where there is none.
	AuditDropped func() uint64
	// Slow keeps the requests that took long.
	Slow *slowlog.Log
	// Records are what the cluster, or a node that stands alone, knows about itself.
	Records *meta.Keeper
	// TableName names a table in words.
	TableName func(id uint32) string
	// Usage is what was spent at the physical partitions of the cluster, BecameHot how often those here became hot.
	Usage     func(ctx context.Context, q usage.Question) []usage.Report
	BecameHot func() uint64
	// Journal is what is kept of what was written a short time ago.
	Journal func() journal.Level
	// Users is what users have asked of all nodes.
	Users func(ctx context.Context) []usage.User
	// Cluster is nil for a node that stands alone.
	Cluster *Cluster
}

// Cluster is the parts of a node that is one of many.
type Cluster struct {
	Self      topology.NodeID
	Peers     *peers.Peers
	Log       *raftlog.Store
	Transport *transport.Transport
	// ClockSkew is the difference of clocks above which it is a problem.
	ClockSkew time.Duration
	// Describe is what this node reports of itself.
	Describe func() peers.Report
}

// leading counts the replicas on this node that lead.
func (n *Node) leading() (count int) {
	for _, r := range n.Host.Replicas() {
		if r.Leading() {
			count++
		}
	}
	return count
}
