// SPDX-License-Identifier: Apache-2.0

// Package diagnostics shows operators the clients, the slow requests, and the location of data on all nodes.
//
// Each type is responsible for one subject: Sessions for client connections, SlowRequests for slow-query logs, and
// Locator for the replicas of logical partitions.
package diagnostics

import (
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// queryTimeout limits the wait for another node.
const queryTimeout = 2 * time.Second

// Diagnostics combines all diagnostics for virtual tables (catalog.Diagnostics) and for the HTTP interface
// (admin.Diagnostics).
type Diagnostics struct {
	*Sessions
	*SlowRequests
	*Locator
	Engine
	RingReporter
}

var _ catalog.Diagnostics = Diagnostics{}

// Engine knows the prepared statements of this node. It is implemented by *session.Engine.
type Engine interface {
	PreparedStatements() []catalog.PreparedStatement
}

// RingReporter knows the nodes as drivers see them. It is implemented by *admin.Reporter.
type RingReporter interface {
	Ring() []catalog.RingNode
}

// Register registers the handlers for the calls of other nodes.
func (d Diagnostics) Register(s *rpc.Server) {
	d.Sessions.register(s)
	d.SlowRequests.register(s)
	d.Locator.register(s)
}
