// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// partitionsShown is the maximum number of a node's partitions that have separate metrics. These partitions are the
// partitions with the highest consumption. The totals of the node include all partitions.
const partitionsShown = 200

var (
	partitionLabels = []string{"table", "partition"}

	unitsDesc = prometheus.NewDesc("ilion_partition_request_units_total",
		"Request units consumed on this node by the 200 busiest partitions.",
		partitionLabels, nil)
	throttledDesc = prometheus.NewDesc("ilion_partition_throttled_total",
		"Requests rejected because the physical partition had used its throughput.", partitionLabels, nil)
	utilisationDesc = prometheus.NewDesc("ilion_partition_utilization_ratio",
		"Fraction of the throughput of a physical partition consumed in the last 10 seconds.", partitionLabels, nil)
	hotDesc = prometheus.NewDesc("ilion_partition_hot",
		"1 while a physical partition uses 90 % of its throughput or rejects requests.", partitionLabels, nil)
	allUnitsDesc = prometheus.NewDesc("ilion_request_units_total", "Request units consumed on this node.",
		nil, nil)
	allThrottledDesc = prometheus.NewDesc("ilion_throttled_total",
		"Requests rejected because a physical partition had used its throughput.", nil, nil)
	allHotDesc = prometheus.NewDesc("ilion_partitions_hot",
		"Physical partitions that use 90 % of their throughput or reject requests.", nil, nil)
	becameDesc = prometheus.NewDesc("ilion_hot_partition_events_total",
		"Number of times that a physical partition became hot.",
		nil, nil)
	usageDescs = []*prometheus.Desc{unitsDesc, throttledDesc, utilisationDesc, hotDesc, allUnitsDesc, allThrottledDesc,
		allHotDesc, becameDesc}
)

// collectUsage collects the metrics of consumption.
func (n *Reporter) collectUsage(ch chan<- prometheus.Metric) {
	var units ru.Units
	var throttled uint64
	hot := 0
	var list []usage.Report
	for _, r := range n.Host.Replicas() {
		u := r.Load().Report(usage.ReportOptions{})
		units += u.Counts.Total()
		throttled += u.Throttled
		if u.Hot != 0 {
			hot++
		}
		t := n.Catalog.Snapshot().TableByID(u.Table)
		if r.ID() != topology.MetaPartition && t != nil && !schema.IsSystem(t.Keyspace) {
			list = append(list, u)
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	total(allUnitsDesc, units.Float())
	total(allThrottledDesc, float64(throttled))
	gauge(allHotDesc, float64(hot))
	total(becameDesc, float64(n.Statistics.BecameHot()))
	slices.SortFunc(list, func(a, b usage.Report) int {
		return cmp.Or(cmp.Compare(b.Counts.Total(), a.Counts.Total()), cmp.Compare(a.Partition, b.Partition))
	})
	for i := range list[:min(len(list), partitionsShown)] {
		u := &list[i]
		labels := []string{n.Catalog.TableName(u.Table), strconv.FormatUint(u.Partition, 10)}
		total(unitsDesc, u.Counts.Total().Float(), labels...)
		total(throttledDesc, float64(u.Throttled), labels...)
		if u.PerSecond > 0 {
			gauge(utilisationDesc, u.Lately.Utilization(), labels...)
			gauge(hotDesc, min(float64(u.Hot), 1), labels...)
		}
	}
}
