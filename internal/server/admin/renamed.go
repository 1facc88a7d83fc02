// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// renamedMetric is a metric that had another name in an earlier release.
type renamedMetric struct {
	name, former string
	// factor converts a value to the unit of the former metric. The value 0 has the same meaning as 1.
	factor float64
}

// renamedMetrics lists the metrics whose former names are still exported. Each former name is exported for one
// release.
var renamedMetrics = []renamedMetric{
	{name: "ilion_coordinator_misrouted_requests_total", former: "ilion_coordinator_astray_requests_total"},
	{name: "ilion_coordinator_retries_by_reason_total", former: "ilion_coordinator_asked_again_total"},
	{name: "ilion_coordinator_conditional_writes_total", former: "ilion_coordinator_decisions_total"},
	{name: "ilion_coordinator_read_restarts_total", former: "ilion_coordinator_repeated_reads_total"},
	{name: "ilion_coordinator_requests_in_flight", former: "ilion_coordinator_requests_under_way"},
	{name: "ilion_cql_handshake_evictions_total", former: "ilion_cql_connections_crowded_out_total"},
	{name: "ilion_hot_partition_events_total", former: "ilion_partitions_became_hot_total"},
	{name: "ilion_change_buffer_bytes", former: "ilion_journal_bytes"},
	{name: "ilion_change_buffer_dropped_total", former: "ilion_journal_dropped_total"},
	{name: "ilion_change_buffer_limit_bytes", former: "ilion_journal_bound_bytes"},
	{name: "ilion_metadata_version", former: "ilion_records_version"},
	{name: "ilion_partition_utilization_ratio", former: "ilion_partition_utilisation_ratio"},
	{name: "ilion_store_disk_free_ratio", former: "ilion_store_disk_free_percent", factor: 100},
	{name: "ilion_under_replicated_partitions", former: "ilion_replica_sets_short"},
	{name: "ilion_view_updates_applied_total", former: "ilion_view_rows_followed_total"},
	{name: "ilion_view_updates_failed_total", former: "ilion_view_rows_failed_total"},
}

// withFormerNames returns a gatherer that also returns renamed metrics under their former names.
func withFormerNames(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		for _, r := range renamedMetrics {
			at, ok := slices.BinarySearchFunc(families, r.name, func(f *dto.MetricFamily, name string) int {
				return strings.Compare(f.GetName(), name)
			})
			if ok {
				families = append(families, r.formerFamily(families[at]))
			}
		}
		slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
		return families, err
	})
}

// formerFamily returns a copy of a metric under its former name.
func (r renamedMetric) formerFamily(f *dto.MetricFamily) *dto.MetricFamily {
	former := proto.CloneOf(f)
	former.Name = proto.String(r.former)
	former.Help = proto.String("Deprecated: use " + r.name + ".")
	if r.factor != 0 {
		for _, m := range former.Metric {
			if v := m.GetGauge().GetValue(); v >= 0 { // a negative value means that the value is unknown
				m.Gauge.Value = proto.Float64(v * r.factor)
			}
		}
	}
	return former
}
