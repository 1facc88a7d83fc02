// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/cql"
)

// These calls request the usage of the replicas on a node, and of the users of a node.
var (
	usageCall = rpc.Declare[usage.ReportOptions, []usage.Report](rpc.Spec{Name: "usage", Since: 3,
		Timeout: 2 * time.Second, RequestMax: rpc.SmallBytes, Idempotent: true})
	usersCall = rpc.Declare[rpc.None, []usage.User](rpc.Spec{Name: "users", Since: 3, Timeout: 2 * time.Second,
		Idempotent: true})
)

// UsageReporter reports the usage of physical partitions and their logical partitions.
type UsageReporter struct {
	src     Sources
	names   KeyNames
	largest *partitioncount.LargestFinder
	log     *slog.Logger
	// becameHot counts how often partitions became hot.
	becameHot atomic.Uint64
}

// NewUsageReporter returns a UsageReporter that logs partitions that become hot.
func NewUsageReporter(src Sources, log *slog.Logger) *UsageReporter {
	return &UsageReporter{src: src, names: NewKeyNames(src.Catalog, src.Store), log: log,
		largest: &partitioncount.LargestFinder{Store: src.Store.Statistics, Host: src.Host, Clock: src.Clock}}
}

// FindLargest finds the largest logical partitions for reports that request them. It returns when ctx ends.
func (u *UsageReporter) FindLargest(ctx context.Context) { u.largest.Run(ctx) }

func (u *UsageReporter) register(s *rpc.Server) {
	clusterquery.Handle(s, usageCall, func(_ context.Context, q usage.ReportOptions) ([]usage.Report, error) {
		list := u.local(q)
		return list[:min(len(list), usage.ReportsMax)], nil
	})
}

// Usage returns the usage of all replicas of user tables in the cluster.
func (u *UsageReporter) Usage(ctx context.Context, q usage.ReportOptions) []usage.Report {
	lists := [][]usage.Report{u.local(q)}
	clusterquery.Others(ctx, u.src.Queries, usageCall, q, func(list []usage.Report) { lists = append(lists, list) })
	return usage.Merge(lists...)
}

// ContainerSizes maps partition IDs to the sizes of the physical partitions of a container's table. The sizes of
// partitions on nodes that do not respond are missing.
func (u *UsageReporter) ContainerSizes(ctx context.Context, table uint32) map[topology.PartitionID]container.Size {
	out := map[topology.PartitionID]container.Size{}
	for _, r := range u.Usage(ctx, usage.ReportOptions{Table: table, Sizes: true}) {
		out[topology.PartitionID(r.Partition)] = container.Size{DiskBytes: r.DiskBytes, Keys: r.LogicalPartitions}
	}
	return out
}

// local returns the usage of the local replicas. It omits replicas without usage.
func (u *UsageReporter) local(q usage.ReportOptions) (out []usage.Report) {
	for _, r := range u.src.Host.Replicas() {
		if q.Table != 0 && r.Table() != q.Table || u.src.Catalog.UserTable(r.Table()) == nil {
			continue
		}
		report := r.Load().Report(q)
		if q.Largest && r.Leading() {
			for _, l := range u.largest.Latest(r.ID()) {
				name := u.names.Name(report.Table, l.Token, l.Key)
				report.Largest = append(report.Largest, usage.LargePartition{Token: int64(l.Token), Name: name,
					Bytes: l.Bytes, Estimated: l.Estimated})
			}
		}
		if q.Sizes && r.Leading() {
			span, _ := r.Span()
			if e, err := u.src.Store.Estimate(span.Keys(r.Table())); err == nil {
				report.DiskBytes, report.LogicalPartitions = e.Bytes, e.Partitions
			}
		}
		used := report.Counts.RequestCount() > 0 || report.Throttled > 0 || report.PerSecond != 0
		if !used && report.Largest == nil && !q.Sizes {
			continue
		}
		u.nameKeys(report.Table, report.Top.Keys)
		for i := range report.Minutes {
			u.nameKeys(report.Table, report.Minutes[i].Keys)
		}
		out = append(out, report)
	}
	return out
}

// nameKeys adds the readable names of logical partitions. It looks up keys that no read has identified.
func (u *UsageReporter) nameKeys(table uint32, heavy []usage.HeavyPartition) {
	for i := range heavy {
		heavy[i].Name = u.names.Name(table, heavy[i].Token, heavy[i].Key)
	}
}

// PartitionHot logs that a partition has become hot or has cooled down (R55).
func (u *UsageReporter) PartitionHot(r *partition.Replica, hot bool) {
	t := u.src.Catalog.UserTable(r.Table())
	if t == nil {
		return
	}
	table := slog.String("table", t.String())
	id := slog.Uint64("partition", uint64(r.ID()))
	if !hot {
		u.log.LogAttrs(context.Background(), slog.LevelInfo, "partition is no longer hot", table, id)
		return
	}
	u.becameHot.Add(1)
	report := r.Load().Report(usage.ReportOptions{Keys: 1})
	key, share := "", 0.
	if len(report.Top.Keys) > 0 && report.UnitsPerSecond() > 0 {
		h := &report.Top.Keys[0]
		key = cmp.Or(u.names.Name(r.Table(), h.Token, h.Key), "")
		share = min(h.PerSecond/report.UnitsPerSecond(), 1)
	}
	u.log.LogAttrs(context.Background(), slog.LevelWarn, "partition is hot", table, id,
		slog.Float64("utilisation_percent", float64(int(1000*report.Lately.Utilization()))/10),
		slog.Int64("throughput", report.PerSecond), slog.Uint64("throttled", report.Lately.Throttled),
		slog.String("hottest_key", key), slog.Int("its_share_percent", int(100*share)))
}

// BecameHot returns how often partitions on this node became hot.
func (u *UsageReporter) BecameHot() uint64 { return u.becameHot.Load() }

// UserReporter reports the users with the highest usage.
type UserReporter struct {
	server  *cql.Server
	queries *clusterquery.Client
}

// NewUserReporter returns a UserReporter. queries is nil on a standalone node.
func NewUserReporter(server *cql.Server, queries *clusterquery.Client) *UserReporter {
	return &UserReporter{server, queries}
}

func (u *UserReporter) register(s *rpc.Server) {
	clusterquery.Handle(s, usersCall, func(context.Context, rpc.None) ([]usage.User, error) {
		return u.server.Users(), nil
	})
}

// Users returns the users with the highest usage on all nodes.
func (u *UserReporter) Users(ctx context.Context) []usage.User {
	lists := [][]usage.User{u.server.Users()}
	clusterquery.Others(ctx, u.queries, usersCall, rpc.None{}, func(list []usage.User) {
		lists = append(lists, list[:min(len(list), usage.UsersMax)])
	})
	return usage.MergeUsers(lists...)
}
