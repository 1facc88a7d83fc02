// SPDX-License-Identifier: Apache-2.0

package diagnostics

import (
	"context"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// slowEvery is the interval at which slow requests are logged.
const slowEvery = 5 * time.Second

// slowCall requests the slow requests on a node.
var slowCall = rpc.Declare[rpc.None, slowlog.Report](rpc.Spec{Name: "slow", Since: 7, Timeout: queryTimeout,
	Idempotent: true})

// SlowRequests reports the slow requests of all nodes.
type SlowRequests struct {
	self    topology.NodeID
	slow    *slowlog.Log
	queries *clusterquery.Client
}

// NewSlowRequests returns the SlowRequests of a node.
func NewSlowRequests(self topology.NodeID, slow *slowlog.Log, queries *clusterquery.Client) *SlowRequests {
	return &SlowRequests{self, slow, queries}
}

func (s *SlowRequests) register(server *rpc.Server) { clusterquery.Handle(server, slowCall, s.local) }

// local returns the slow requests on this node.
func (s *SlowRequests) local(context.Context, rpc.None) (slowlog.Report, error) {
	return s.slow.Report(hex.EncodeToString(s.self[:])), nil
}

// SlowQueries returns the slow requests on all nodes.
func (s *SlowRequests) SlowQueries(ctx context.Context) slowlog.Report {
	responses, silent, _ := clusterquery.All(ctx, s.queries, slowCall, rpc.None{}, s.local)
	out := slowlog.Merge(responses...)
	out.Unreachable = silent
	return out
}

// LogSlow periodically logs the number of slow requests and the slowest request until ctx ends.
func (s *SlowRequests) LogSlow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(slowEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		count, r := s.slow.Summarize()
		if count == 0 {
			continue
		}
		log.LogAttrs(ctx, slog.LevelInfo, "requests were slow", slog.Uint64("requests", count),
			slog.Float64("slowest_ms", r.Millis), slog.String("statement", r.Statement),
			slog.String("keyspace", r.Keyspace), slog.String("table", r.Table), slog.String("role", r.User),
			slog.String("client", r.Client), slog.String("outcome", r.Outcome))
	}
}
