// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// tablesTime is the maximum time for which a node samples tables for one query. tablesTimeout is the maximum wait
	// for the result.
	tablesTime, tablesTimeout = 800 * time.Millisecond, 2 * time.Second
	// deadKeysMax is the maximum number of records of dead keys that are examined for a table.
	deadKeysMax = 20_000
)

// tablePart is a node's data about a table. It covers the physical partitions that the node leads and the requests
// that the node has served.
type tablePart struct {
	Table uint32 `json:"table"`
	// Sampled reports whether Rows and Bytes cover every led partition. Exact reports whether Rows and Bytes are
	// exact.
	Sampled bool    `json:"sampled"`
	Exact   bool    `json:"exact"`
	Rows    float64 `json:"rows"`
	Bytes   float64 `json:"bytes"`

	Dead   uint64                      `json:"dead"`
	More   bool                        `json:"more"`
	Lag    int64                       `json:"lag"`
	Spread [3]session.LatencyHistogram `json:"spread"` // indexed by session.Operation
	Views  map[uint32]catalog.ViewLag  `json:"views,omitempty"`
}

// TableSampler estimates the rows and garbage of tables from samples. It also reports the latencies of requests and
// the lags of views.
type TableSampler struct {
	src    Sources
	engine Engine
	views  *view.Keeper
}

// NewTableSampler returns a TableSampler.
func NewTableSampler(src Sources, engine Engine, views *view.Keeper) *TableSampler {
	return &TableSampler{src, engine, views}
}

// tablesCall requests a node's data about the tables with the given IDs.
var tablesCall = rpc.Declare[[]uint32, []tablePart](rpc.Spec{Name: "tables", Since: 7, Timeout: tablesTimeout,
	Idempotent: true})

func (s *TableSampler) register(server *rpc.Server) { clusterquery.Handle(server, tablesCall, s.local) }

// local returns this node's data about the tables with the given IDs.
func (s *TableSampler) local(ctx context.Context, ids []uint32) (parts []tablePart, err error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTime)
	defer cancel()
	led := map[uint32][]keys.Span{}
	for _, r := range s.src.Host.Replicas() {
		if r.Leading() {
			span, _ := r.Span()
			led[r.Table()] = append(led[r.Table()], span.Keys(r.Table()))
		}
	}
	lags := s.ViewLags()
	snapshot := s.src.Catalog.Snapshot()
	for _, id := range ids {
		t := snapshot.TableByID(id)
		if t == nil {
			continue
		}
		p := tablePart{Table: id, Views: map[uint32]catalog.ViewLag{}}
		for op := range p.Spread {
			p.Spread[op] = s.engine.TableHistogram(id, session.Operation(op))
		}
		for _, ix := range t.Indexes {
			if l, ok := lags[ix.ID]; ok {
				p.Views[ix.ID] = l
			}
		}
		s.sample(ctx, t, led[id], &p)
		parts = append(parts, p)
	}
	return parts, nil
}

// sample samples the led partitions of a table. It ignores read errors, because they already stop the node.
func (s *TableSampler) sample(ctx context.Context, t *schema.Table, led []keys.Span, p *tablePart) {
	now := s.src.Clock.Wall().Unix()
	if d, err := s.src.Store.PendingGarbage(t.ID, led, now, deadKeysMax); err == nil && d.Count > 0 {
		p.Dead, p.More = d.Count, d.Partial
		p.Lag = max(0, s.src.Clock.EarliestSeconds()-int64(t.Options.GCGrace)-d.Oldest)
	}
	p.Sampled, p.Exact = true, true
	for _, span := range led {
		if ctx.Err() != nil {
			p.Sampled = false
			return
		}
		sample, err := s.src.Store.Sample(ctx, span, sampleOptions(len(led), now))
		if err != nil {
			p.Sampled = false
			return
		}
		e, _ := s.src.Store.Estimate(span)
		p.add(&sample, float64(e.Partitions))
		p.Exact = p.Exact && sample.Complete
	}
}

// sampleOptions returns options for sampling one of several physical partitions. All samples together take a few
// milliseconds.
func sampleOptions(spans int, now int64) storage.SampleOptions {
	each := max(64/max(spans, 1), 4)
	return storage.SampleOptions{Spots: each, Run: 2, HeavySpots: each, RowsKept: 1, Bytes: int64(each) << 16, Now: now}
}

// add adds the sample of a physical partition. logical is the partition's number of logical partitions. The randomly
// sampled logical partitions represent all logical partitions, except those found because of their size.
func (p *tablePart) add(s *storage.Sample, logical float64) {
	var rows, bytes, drawn, heavy float64
	for i := range s.Partitions {
		q := &s.Partitions[i]
		switch {
		case s.Complete, q.Heavy:
			p.Rows, p.Bytes = p.Rows+q.Rows, p.Bytes+q.Bytes
			heavy++
		default:
			rows, bytes, drawn = rows+q.Rows, bytes+q.Bytes, drawn+1
		}
	}
	if drawn > 0 {
		others := max(logical-heavy, drawn)
		p.Rows, p.Bytes = p.Rows+rows/drawn*others, p.Bytes+bytes/drawn*others
	}
}

// Tables returns the data of all nodes about tables, by ID.
func (s *TableSampler) Tables(ctx context.Context, tables []*schema.Table) map[uint32]catalog.TableStats {
	ids := []uint32{}
	for _, t := range tables {
		ids = append(ids, t.ID)
	}
	responses, silent, err := clusterquery.All(ctx, s.src.Queries, tablesCall, ids, s.local)
	if err != nil {
		return nil
	}
	out := map[uint32]catalog.TableStats{}
	for _, id := range ids {
		f := catalog.TableStats{Sampled: true, Exact: true, Silent: silent, Views: map[uint32]catalog.ViewLag{}}
		var spreads [3]session.LatencyHistogram
		for _, parts := range responses {
			for i := range parts {
				if parts[i].Table == id {
					parts[i].addTo(&f, &spreads)
				}
			}
		}
		f.Read, f.Scan, f.Write = shownLatency(&spreads[session.Read]), shownLatency(&spreads[session.Scan]),
			shownLatency(&spreads[session.Write])
		out[id] = f
	}
	return out
}

func (p *tablePart) addTo(f *catalog.TableStats, spreads *[3]session.LatencyHistogram) {
	f.Sampled, f.Exact = f.Sampled && p.Sampled, f.Exact && p.Exact
	f.Rows, f.LogicalBytes = f.Rows+uint64(p.Rows+0.5), f.LogicalBytes+uint64(p.Bytes+0.5)
	f.Tombstones, f.TombstonesOrMore = f.Tombstones+p.Dead, f.TombstonesOrMore || p.More
	f.SweepLag = max(f.SweepLag, p.Lag)
	for op := range spreads {
		spreads[op].Add(&p.Spread[op])
	}
	for id, l := range p.Views {
		have := f.Views[id]
		have.Due += l.Due
		if have.Oldest == 0 || l.Oldest != 0 && l.Oldest < have.Oldest {
			have.Oldest = cmp.Or(l.Oldest, have.Oldest)
		}
		f.Views[id] = have
	}
}

func shownLatency(s *session.LatencyHistogram) catalog.Latency {
	l := s.Summary()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return catalog.Latency{Count: l.Count, Median: ms(l.Median), P99: ms(l.P99), Slowest: ms(l.Slowest),
		PerSecond: l.PerSecond}
}

// Latency returns the latency of an operation on a table at this node. ok is false if the operation has not been
// executed.
func (s *TableSampler) Latency(table uint32, op catalog.LatencyOperation) (l catalog.Latency, ok bool) {
	h := s.engine.TableHistogram(table, session.Operation(op))
	l = shownLatency(&h)
	return l, l.Count > 0
}

// ViewLags maps the IDs of hint indexes to the lags of the views on this node.
func (s *TableSampler) ViewLags() map[uint32]catalog.ViewLag {
	out := map[uint32]catalog.ViewLag{}
	for id, l := range s.views.Lags() {
		out[id] = catalog.ViewLag{Due: int64(l.Due), Oldest: l.Oldest}
	}
	return out
}
