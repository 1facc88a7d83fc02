// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

func fillSlowQueries(b *builder) {
	if b.info.Diagnostics == nil {
		return
	}
	all := b.info.Diagnostics.SlowQueries(b.ctx)
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
	if b.info.Diagnostics == nil {
		return
	}
	all := b.info.Diagnostics.SlowQueries(b.ctx)
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

func instant(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return timestamp(t.UnixMilli())
}
