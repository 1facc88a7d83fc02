// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// reports calls fn for the usage reports of the partitions in the requested keyspaces.
func (b *builder) reports(q usage.ReportOptions, fn func(*schema.Table, *usage.Report)) {
	if b.info.Statistics == nil {
		return
	}
	list := b.info.Statistics.Usage(b.ctx, q)
	b.stored(func(t *schema.Table) {
		for i := range list {
			if list[i].Table == t.ID {
				fn(t, &list[i])
			}
		}
	})
}

// tokenOf returns the token of a logical partition. If the partition key is masked, it returns null, because a client
// could use the token to check a guess of the key.
func tokenOf(t *schema.Table, at int64) []byte {
	if t.MaskedKey() {
		return nil
	}
	return bigint(at)
}

// partitionOf returns the key columns of the row that describes a partition.
func partitionOf(t *schema.Table, r *usage.Report) values {
	return values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name),
		"partition_id": bigint(int64(r.Partition))}
}

func fillPartitionUsage(b *builder) {
	b.reports(usage.ReportOptions{Keys: 1}, func(t *schema.Table, r *usage.Report) {
		v, c := partitionOf(t, r), &r.Counts
		v["request_units"], v["requests"] = units(c.Total()), bigint(int64(c.RequestCount()))
		v["bytes_read"], v["bytes_written"] = bigint(int64(c.BytesRead)), bigint(int64(c.BytesWritten))
		v["throttled"] = bigint(int64(r.Throttled))
		for k, column := range map[usage.Kind]string{usage.Point: "point_reads", usage.Slice: "slices",
			usage.Scan: "scans", usage.Write: "writes", usage.Condition: "conditions", usage.Update: "updates"} {
			v[column] = bigint(int64(c.Requests[k]))
		}
		v["ru_per_second"] = double(r.UnitsPerSecond())
		v["requests_per_second"] = double(usage.PerSecond(r.Lately.Requests))
		v["bytes_per_second"] = double(usage.PerSecond(r.Lately.Bytes))
		v["throttled_per_second"] = double(usage.PerSecond(r.Lately.Throttled))
		if r.PerSecond > 0 {
			v["throughput"], v["utilisation"] = bigint(r.PerSecond), double(r.Lately.Utilization())
		}
		v["hot_since"] = timestamp(1000 * r.Hot)
		if len(r.Top.Keys) > 0 && r.UnitsPerSecond() > 0 {
			v["hottest_key"] = text(r.Top.Keys[0].Name)
			v["hottest_key_share"] = double(min(r.Top.Keys[0].PerSecond/r.UnitsPerSecond(), 1))
		}
		b.add(v)
	})
}

func fillUsageHistory(b *builder) {
	b.reports(usage.ReportOptions{Minutes: true}, func(t *schema.Table, r *usage.Report) {
		for i := range r.Minutes {
			m, v := &r.Minutes[i], partitionOf(t, r)
			v["minute"] = bigint(1000 * m.At)
			v["request_units"], v["requests"] = units(m.Units), bigint(int64(m.Requests))
			v["bytes"], v["throttled"] = bigint(int64(m.Bytes)), bigint(int64(m.Throttled))
			v["peak_ru_per_second"] = units(m.Peak)
			if m.Given > 0 {
				v["given"], v["utilisation"] = bigint(m.Given), double(m.Utilization())
			}
			if len(m.Keys) > 0 {
				v["top_key"], v["top_key_units"] = text(m.Keys[0].Name), units(m.Keys[0].Units)
			}
			b.add(v)
		}
	})
}

func fillHotKeys(b *builder) {
	b.reports(usage.ReportOptions{Keys: usage.TopMax}, func(t *schema.Table, r *usage.Report) {
		for i := range r.Top.Keys {
			h, v := &r.Top.Keys[i], partitionOf(t, r)
			v["place"], v["key"], v["token"] = int32Value(int32(i+1)), text(h.Name), tokenOf(t, int64(h.Token))
			v["ru_per_second"] = double(h.PerSecond)
			if r.UnitsPerSecond() > 0 {
				v["share"] = double(min(h.PerSecond/r.UnitsPerSecond(), 1))
			}
			v["minute_units"], v["too_high_by"], v["noise"] = units(h.Units), units(h.Over), units(h.Noise)
			b.add(v)
		}
	})
}

func fillLargeKeys(b *builder) {
	b.reports(usage.ReportOptions{Largest: true}, func(t *schema.Table, r *usage.Report) {
		for i := range r.Largest {
			l, v := &r.Largest[i], partitionOf(t, r)
			v["place"], v["key"], v["token"] = int32Value(int32(i+1)), text(l.Name), tokenOf(t, l.Token)
			v["bytes"], v["estimated"] = bigint(l.Bytes), boolean(l.Estimated)
			b.add(v)
		}
	})
}

func units(u ru.Units) []byte { return double(u.Float()) }

func fillUserUsage(b *builder) {
	if b.info.Statistics == nil {
		return
	}
	for _, u := range b.info.Statistics.Users(b.ctx) {
		if !b.wants(u.Name) {
			continue
		}
		b.add(values{"user": text(u.Name), "request_units": double(u.Units), "requests": bigint(int64(u.Requests)),
			"throttled": bigint(int64(u.Refused)), "ru_per_second": double(u.PerSecond),
			"requests_per_second": double(u.RequestsPerSecond), "throttled_per_second": double(u.RefusedPerSecond)})
	}
}
