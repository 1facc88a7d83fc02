// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/server/cql"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// Node refers to the parts of a node whose state is reported. Every value is read from the part that owns it, at the
// time of the request.
type Node struct {
	// Budget is the memory budget in bytes.
	Budget int64
	// Software is the version of the build.
	Software string
	// Expiring describes the certificates of the node that have expired or expire soon. It returns nil if no
	// certificate does.
	Expiring func() []string
	// ClusterName, Data, and Commit are the configured values. Address is the address for CQL clients.
	ClusterName, Data, Commit, Address string

	Store       *storage.Statistics
	Directory   *storage.Directory
	Host        *partition.Host
	Census      *partitioncount.Counter
	Growth      *autosplit.SplitController
	Coordinator *coordinator.Coordinator
	Catalog     *catalog.Catalog
	Engine      *session.Engine
	CQL         *cql.Server
	// REST holds the counters of the REST server; nil if REST is disabled.
	REST *rest.Stats
	// Views updates materialized views; nil in some tests.
	Views *view.Keeper
	// Logins returns the numbers of successful, failed, and rejected logins; nil if no login is required.
	Logins func() (succeeded, failed, refused uint64)
	// AuditDropped returns the number of dropped audit log entries; nil without an audit log.
	AuditDropped func() uint64
	// Slow is the slow-query log.
	Slow *slowlog.Log
	// Records is the metadata of the cluster or of the single node.
	Records *meta.Keeper
	// TableName returns the name of a table.
	TableName func(id uint32) string
	// Statistics provides the consumption of partitions.
	Statistics Statistics
	// Journal returns the state of the change buffer.
	Journal func() changebuffer.Stats
	// Cluster is nil for a single node.
	Cluster *Cluster
}

// Statistics provides the consumption of partitions.
type Statistics interface {
	// Usage returns the consumption of the physical partitions of the cluster.
	Usage(ctx context.Context, q usage.ReportOptions) []usage.Report
	// BecameHot returns the number of times that a partition on this node became hot.
	BecameHot() uint64
}

// Cluster refers to the parts that exist only in a cluster.
type Cluster struct {
	Self      topology.NodeID
	Peers     *peers.Peers
	Log       *raftlog.Store
	Transport *transport.Transport
	// ClockSkew is the clock difference above which a problem is reported.
	ClockSkew time.Duration
	// Describe returns this node's report.
	Describe func() peers.Report
}

// leading counts the leaders on this node.
func (n *Node) leading() (count int) {
	for _, r := range n.Host.Replicas() {
		if r.Leading() {
			count++
		}
	}
	return count
}
