// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	tablesSubject = "tables"
	// tablesTime is how long a node samples tables for one question, tablesWait how long it is waited for.
	tablesTime, tablesWait = 800 * time.Millisecond, 2 * time.Second
	// deadLooked is how many notes of dead keys of a table are looked at.
	deadLooked = 20_000
)

// tablePart is what one node knows of a table: of the physical partitions that it leads, and of what it was asked.
type tablePart struct {
	Table uint32 `json:"table"`
	// Sampled says that Rows and Bytes are known of every partition that is led here, Exact that they are no estimates.
	Sampled bool    `json:"sampled"`
	Exact   bool    `json:"exact"`
	Rows    float64 `json:"rows"`
	Bytes   float64 `json:"bytes"`

	Dead   uint64                      `json:"dead"`
	More   bool                        `json:"more"`
	Lag    int64                       `json:"lag"`
	Spread [3]session.LatencyHistogram `json:"spread"` // by session.Operation
	Views  map[uint32]catalog.ViewLag  `json:"views,omitempty"`
}

// tablesHere is what this node knows of the tables whose ids are asked about.
func (n *Node) tablesHere(ctx context.Context, question []byte) (parts []tablePart, err error) {
	var ids []uint32
	if err := json.Unmarshal(question, &ids); err != nil {
		return nil, fmt.Errorf("malformed question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, tablesTime)
	defer cancel()
	led := map[uint32][]keys.Span{}
	for _, r := range n.host.Replicas() {
		if r.Leading() {
			span, _ := r.Span()
			led[r.Table()] = append(led[r.Table()], span.Keys(r.Table()))
		}
	}
	lags := n.viewLags()
	snapshot := n.catalog.Snapshot()
	for _, id := range ids {
		t := snapshot.TableByID(id)
		if t == nil {
			continue
		}
		p := tablePart{Table: id, Views: map[uint32]catalog.ViewLag{}}
		for op := range p.Spread {
			p.Spread[op] = n.engine.TableHistogram(id, session.Operation(op))
		}
		for _, ix := range t.Indexes {
			if l, ok := lags[ix.ID]; ok {
				p.Views[ix.ID] = l
			}
		}
		n.lookAt(ctx, t, led[id], &p)
		parts = append(parts, p)
	}
	return parts, nil
}

// lookAt samples what this node leads of a table. What cannot be read ends the node by itself.
func (n *Node) lookAt(ctx context.Context, t *schema.Table, led []keys.Span, p *tablePart) {
	now := n.clock()().Unix()
	if d, err := n.store.Dead(t.ID, led, now, deadLooked); err == nil && d.Count > 0 {
		p.Dead, p.More = d.Count, d.Partial
		p.Lag = max(0, n.past()-int64(t.Options.GCGrace)-d.Oldest)
	}
	p.Sampled, p.Exact = true, true
	for _, span := range led {
		if ctx.Err() != nil {
			p.Sampled = false
			return
		}
		s, err := n.store.Survey(ctx, span, sampleOptions(len(led), now))
		if err != nil {
			p.Sampled = false
			return
		}
		p.add(&s, n.logicalIn(span))
		p.Exact = p.Exact && s.Complete
	}
}

// sampleOptions are those of a look at one of several physical partitions, which takes some milliseconds together.
func sampleOptions(spans int, now int64) storage.SurveyOptions {
	each := max(64/max(spans, 1), 4)
	return storage.SurveyOptions{Spots: each, Run: 2, Heavy: each, RowsKept: 1, Bytes: int64(each) << 16, Now: now}
}

// logicalIn is about how many logical partitions a span has.
func (n *Node) logicalIn(span keys.Span) float64 {
	e, _ := n.store.Estimate(span)
	return float64(e.Partitions)
}

// add adds what was seen of a physical partition with so many logical ones. Those that were drawn by chance stand for
// all others but the ones that were found because they are large.
func (p *tablePart) add(s *storage.Survey, logical float64) {
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

// tableFigures is what all nodes together know of tables, by id.
func (n *Node) tableFigures(ctx context.Context, tables []*schema.Table) map[uint32]catalog.TableStats {
	ids := []uint32{}
	for _, t := range tables {
		ids = append(ids, t.ID)
	}
	question, err := json.Marshal(ids)
	if err != nil {
		return nil // numbers can be told
	}
	answers, silent, err := askAll(ctx, n, tablesSubject, question, tablesWait, n.tablesHere)
	if err != nil {
		return nil
	}
	out := map[uint32]catalog.TableStats{}
	for _, id := range ids {
		f := catalog.TableStats{Sampled: true, Exact: true, Silent: silent, Views: map[uint32]catalog.ViewLag{}}
		var spreads [3]session.LatencyHistogram
		for _, parts := range answers {
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
	f.Tombstones, f.TombstonesOrMore, f.SweepLag = f.Tombstones+p.Dead, f.TombstonesOrMore || p.More, max(f.SweepLag, p.Lag)
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
