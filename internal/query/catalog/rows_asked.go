// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/hex"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// nodeID is the wire form of a node's id in hex, and whether its rows are asked for.
func (b *builder) nodeID(id string) ([]byte, bool) {
	wire, err := hex.DecodeString(id)
	return wire, err == nil && len(wire) == len(schema.UUID{}) && b.wants(string(wire))
}

func instant(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return timestamp(t.UnixMilli())
}

func fillRing(b *builder) {
	if b.info.Ring == nil {
		return
	}
	for _, n := range b.info.Ring() {
		id, ok := b.nodeID(n.Node)
		if !ok {
			continue
		}
		for _, t := range n.Tokens {
			b.add(values{"node": id, "token": bigint(t), "address": text(n.Address), "state": text(n.State),
				"region": text(n.Region), "zone": text(n.Zone), "node_share": double(n.Share),
				"replicas": int32Value(int32(n.Replicas)), "leading": int32Value(int32(n.Leading)),
				"disk_bytes": bigint(int64(n.DiskBytes))})
		}
	}
}

func fillSessions(b *builder) {
	if b.info.Sessions == nil {
		return
	}
	all := b.info.Sessions(b.ctx)
	for i := range all.Sessions {
		s := &all.Sessions[i]
		id, ok := b.nodeID(s.Node)
		if !ok {
			continue
		}
		v := values{"node": id, "id": text(s.ID), "address": text(s.Address), "state": text(s.State),
			"user": textOrNull(s.User), "driver_name": textOrNull(s.Driver),
			"driver_version": textOrNull(s.DriverVersion), "protocol_version": int32Value(int32(s.Protocol)),
			"keyspace_name": textOrNull(s.Keyspace), "tls": boolean(s.TLS),
			"requests_under_way": int32Value(int32(s.ActiveRequests)), "requests": bigint(s.Requests),
			"since": instant(s.Since), "statement": textOrNull(s.Statement)}
		if s.Millis > 0 {
			v["statement_ms"] = double(s.Millis)
		}
		b.add(v)
	}
}

func fillSlowQueries(b *builder) {
	if b.info.Slow == nil {
		return
	}
	all := b.info.Slow(b.ctx)
	for i := range all.Requests {
		r := &all.Requests[i]
		id, ok := b.nodeID(r.Node)
		if !ok {
			continue
		}
		b.add(values{"node": id, "at": instant(r.At), "number": int32Value(int32(i + 1)),
			"statement":     text(r.Statement),
			"keyspace_name": textOrNull(r.Keyspace), "table_name": textOrNull(r.Table), "user": textOrNull(r.User),
			"client": text(r.Client), "ms": double(r.Millis), "consistency": text(r.Consistency),
			"rows": int32Value(int32(r.Rows)), "more_pages": boolean(r.MorePages), "request_units": double(r.Units),
			"outcome": text(r.Outcome)})
	}
}

func fillSlowStatements(b *builder) {
	if b.info.Slow == nil {
		return
	}
	all := b.info.Slow(b.ctx)
	for i := range all.Statements {
		s := &all.Statements[i]
		if !b.wants(s.Keyspace) {
			continue
		}
		b.add(values{"keyspace_name": text(s.Keyspace), "table_name": text(s.Table), "statement": text(s.Statement),
			"count": bigint(int64(s.Count)), "min_ms": double(s.MinMillis), "mean_ms": double(s.MeanMillis),
			"max_ms": double(s.MaxMillis), "last": instant(s.Last)})
	}
}

func fillTableStats(b *builder) {
	if b.info.Tables == nil || b.info.Records == nil {
		return
	}
	var tables []*schema.Table
	b.stored(func(t *schema.Table) {
		if !schema.IsSystem(t.Keyspace) {
			tables = append(tables, t)
		}
	})
	figures, m := b.info.Tables(b.ctx, tables), b.info.Records().Map
	spent := map[uint32]*spending{}
	b.reports(usage.Question{Sizes: true}, func(t *schema.Table, r *usage.Report) {
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

// spending is what all physical partitions of a table hold and take.
type spending struct {
	logical, disk                         uint64
	perSecond, requests, throttled, units float64
}

func (s *spending) add(r *usage.Report) {
	s.logical, s.disk = s.logical+r.LogicalPartitions, s.disk+r.DiskBytes
	s.perSecond, s.units = s.perSecond+r.Busy(), s.units+r.Counts.Total().Float()
	s.requests += usage.EachSecond(r.Lately.Requests)
	s.throttled += usage.EachSecond(r.Lately.Throttled)
}
