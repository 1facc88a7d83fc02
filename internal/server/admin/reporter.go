// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
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

// Reporter reports the state of a node for status pages and metrics. It reads every value, at the time of the request,
// from the component that owns the value.
type Reporter struct {
	Process

	// Certificates reports the certificates of the node that have expired or expire soon. Certificates may be nil.
	Certificates interface{ Problems() []string }
	Store        *storage.Statistics
	Directory    *storage.Directory
	Host         *partition.Host
	Census       *partitioncount.Counter
	Growth       *autosplit.SplitController
	Coordinator  *coordinator.Coordinator
	Catalog      *catalog.Catalog
	Engine       *session.Engine
	CQL          *cql.Server
	// REST holds the counters of the REST server. REST is nil if REST is disabled.
	REST *rest.Stats
	// Views updates materialized views. Views is nil in some tests.
	Views *view.Keeper
	// Logins counts the logins of clients. Logins is empty if no login is required.
	Logins []LoginCounter
	// Audit is the audit log, or nil if the audit log is disabled.
	Audit interface{ Dropped() uint64 }
	// Encryption describes the encryption of the data directory. It is nil if the directory is not encrypted.
	Encryption EncryptionStatus
	// Slow is the slow-query log.
	Slow *slowlog.Log
	// Records is the metadata of the cluster or of the standalone node.
	Records *meta.Keeper
	// Statistics provides the consumption of partitions.
	Statistics Statistics
	// ChangeBuffer holds recent changes for archives.
	ChangeBuffer *changebuffer.Buffer
	// Cluster is nil for a standalone node.
	Cluster *Cluster
	// Clock is the clock that determines the current time. The node uses it for view updates.
	Clock sched.Clock
}

// Process describes the running process.
type Process struct {
	// Budget is the memory budget in bytes.
	Budget int64
	// Software is the version of the build.
	Software string
	// ClusterName, Data, and Commit are the configured values. Address is the address for CQL clients.
	ClusterName, Data, Commit, Address string
}

// LoginCounter counts logins. *login.Checker and *login.Account implement it.
type LoginCounter interface {
	// Counts returns the numbers of successful, failed, and rejected logins.
	Counts() (succeeded, failed, refused uint64)
}

// Statistics provides the statistics of tables, partitions, and users.
type Statistics interface {
	// Usage returns the consumption of the cluster's physical partitions.
	Usage(ctx context.Context, q usage.ReportOptions) []usage.Report
	// Users returns the consumption of users on all nodes.
	Users(ctx context.Context) []usage.User
	// Tables maps table IDs to the statistics of the tables.
	Tables(ctx context.Context, tables []*schema.Table) map[uint32]catalog.TableStats
	// Latency returns the latency of requests that this node has coordinated. For an operation that has not been
	// executed, Latency returns false.
	Latency(table uint32, op catalog.LatencyOperation) (catalog.Latency, bool)
	// BecameHot returns how often partitions on this node became hot.
	BecameHot() uint64
}

// Cluster holds the components that exist only in a cluster.
type Cluster struct {
	Self      topology.NodeID
	Peers     *peers.Peers
	Log       *raftlog.Store
	Transport *transport.Transport
	// ClockSkew is the clock difference above which a problem is reported.
	ClockSkew time.Duration
	// Node returns the report of this node.
	Node interface{ Report() peers.Report }
}

// leading returns the number of leaders on this node.
func (n *Reporter) leading() (count int) {
	for _, r := range n.Host.Replicas() {
		if r.Leading() {
			count++
		}
	}
	return count
}
