// SPDX-License-Identifier: Apache-2.0

// Package stats collects the statistics of tables, partitions, and users from all nodes, for virtual tables, status
// pages, and metrics.
//
// Each type is responsible for one subject. UsageReporter reports consumed request units, and SizeEstimator reports
// the sizes of partitions. TableSampler reports the rows and latencies of tables, and Advisor reports the design of
// tables. Every type measures this node, queries the other nodes (clusterquery), and responds to their queries.
// Statistics of nodes that do not respond are missing.
package stats

import (
	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Sources holds the parts of a node that provide statistics.
type Sources struct {
	Store    *storage.Store
	Host     *partition.Host
	Catalog  *catalog.Catalog
	Metadata *meta.Keeper
	// Queries queries the other nodes. It is nil on a standalone node.
	Queries *clusterquery.Client
	Clock   *peers.NodeClock
}

// Engine holds the statistics of the requests that clients have sent to this node. *session.Engine implements it.
type Engine interface {
	TableHistogram(table uint32, op session.Operation) session.LatencyHistogram
	Scans(table uint32) []session.ScanShape
}

// Statistics combines all statistics for virtual tables (catalog.Statistics).
type Statistics struct {
	*UsageReporter
	*UserReporter
	*SizeEstimator
	*TableSampler
	*Advisor
}

var _ catalog.Statistics = Statistics{}

// Register registers the handlers for the calls of other nodes.
func (s Statistics) Register(server *rpc.Server) {
	s.UsageReporter.register(server)
	s.UserReporter.register(server)
	s.TableSampler.register(server)
	s.Advisor.register(server)
}
