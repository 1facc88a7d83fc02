// SPDX-License-Identifier: Apache-2.0

// Package diagnostics shows operators the clients, the slow requests, and the location of data on all nodes.
//
// Each type is responsible for one subject. Sessions covers client connections, SlowRequests covers slow-query logs,
// and Locator covers the replicas of logical partitions.
package diagnostics

import (
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// queryTimeout is the maximum wait for another node.
const queryTimeout = 2 * time.Second

// Diagnostics combines all diagnostics for virtual tables (catalog.Diagnostics) and the HTTP interface
// (admin.Diagnostics).
type Diagnostics struct {
	*Sessions
	*SlowRequests
	*Locator
	Engine
	RingReporter
}

var _ catalog.Diagnostics = Diagnostics{}

// Engine provides the prepared statements of this node. *session.Engine implements it.
type Engine interface {
	PreparedStatements() []catalog.PreparedStatement
}

// RingReporter provides the nodes as drivers see them. *admin.Reporter implements it.
type RingReporter interface {
	Ring() []catalog.RingNode
}

// Register registers the handlers for the calls of other nodes.
func (d Diagnostics) Register(s *rpc.Server) {
	d.Sessions.register(s)
	d.SlowRequests.register(s)
	d.Locator.register(s)
}
