// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

func fillTableStats(b *builder) {
	if b.info.Statistics == nil || b.info.Metadata == nil {
		return
	}
	var tables []*schema.Table
	b.stored(func(t *schema.Table) {
		if !schema.IsSystem(t.Keyspace) {
			tables = append(tables, t)
		}
	})
	figures, m := b.info.Statistics.Tables(b.ctx, tables), b.info.Metadata.Topology
	spent := map[uint32]*spending{}
	b.reports(usage.ReportOptions{Sizes: true}, func(t *schema.Table, r *usage.Report) {
		if spent[t.ID] == nil {
			spent[t.ID] = &spending{}
		}
		spent[t.ID].add(r)
	})
	for _, t := range tables {
		f := figures[t.ID]
		v := values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name),
			"physical_partitions": int32Value(int32(len(m.Partitions(t.ID)))),
			"tombstones":          bigint(int64(f.Tombstones)), "tombstones_or_more": boolean(f.TombstonesOrMore),
			"sweep_lag_seconds": bigint(f.SweepLag)}
		if f.Sampled {
			v["rows"], v["logical_bytes"] = bigint(int64(f.Rows)), bigint(int64(f.LogicalBytes))
			v["exact"] = boolean(f.Exact)
		}
		for name, l := range map[string]*Latency{"read": &f.Read, "scan": &f.Scan, "write": &f.Write} {
			if l.Count > 0 {
				v[name+"_count"] = bigint(int64(l.Count))
				v[name+"_p50_ms"], v[name+"_p99_ms"] = double(l.Median), double(l.P99)
			}
		}
		if s := spent[t.ID]; s != nil {
			v["logical_partitions"], v["disk_bytes"] = bigint(int64(s.logical)), bigint(int64(s.disk))
			v["ru_per_second"], v["requests_per_second"] = double(s.perSecond), double(s.requests)
			v["throttled_per_second"], v["request_units"] = double(s.throttled), double(s.units)
		}
		b.add(v)
	}
}

// spending holds the total size and consumption of a table's physical partitions.
type spending struct {
	logical, disk                         uint64
	perSecond, requests, throttled, units float64
}

func (s *spending) add(r *usage.Report) {
	s.logical, s.disk = s.logical+r.LogicalPartitions, s.disk+r.DiskBytes
	s.perSecond, s.units = s.perSecond+r.UnitsPerSecond(), s.units+r.Counts.Total().Float()
	s.requests += usage.PerSecond(r.Lately.Requests)
	s.throttled += usage.PerSecond(r.Lately.Throttled)
}
