// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// askEvery is how often leaders are asked for quiet partitions; more often where these need not be quiet for long.
	askEvery = 15 * time.Second
	// askWait is how long a node is waited for that is asked, askAllWait how long all are.
	askWait    = time.Second
	askAllWait = 10 * time.Second
)

// listen notes for how long a partition has been quiet.
func (w *Watch) listen(now time.Time, p *topology.Partition, s *seen) {
	if w.QuietFor <= 0 || s.weighed.IsZero() {
		return
	}
	if _, _, hot := s.hotspot.Hot(); hot {
		s.calm = merge.Calm{} // its siblings stay away
	}
	q := merge.Quiet{Partition: p.ID, Epoch: p.Epoch, Bytes: s.report.Bytes, Load: s.report.Load}
	q.Small, q.Idle = s.calm.Note(now, q.Bytes, s.report.Cap, q.Load, w.Limit)
	w.note(func() { s.quiet = q })
}

// Quiet are the partitions that are led here, have been quiet for QuietFor, and have a neighbour that they may be
// merged with.
func (w *Watch) Quiet() (out []merge.Quiet) {
	w.mu.Lock()
	for _, s := range w.seen {
		if w.QuietFor > 0 && min(s.quiet.Small, s.quiet.Idle) >= w.QuietFor {
			out = append(out, s.quiet)
		}
	}
	w.mu.Unlock()
	s := w.Records.State()
	m, able := s.Map, merge.Able(s)
	out = slices.DeleteFunc(out, func(q merge.Quiet) bool {
		p := m.Partition(q.Partition)
		if p == nil {
			return true
		}
		ps, i := m.Partitions(p.Table), m.Find(p.Table, p.Span.Begin)
		return !able(p) && (i+1 >= len(ps) || !able(ps[i+1]))
	})
	slices.SortFunc(out, func(a, b merge.Quiet) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// Merger orders the merges of quiet neighbours, and of those that were brought to the same nodes to be merged. Its
// fields are set before Run.
type Merger struct {
	Records *meta.Keeper
	Rules   merge.Rules
	// Mine reports whether this node decides: it leads the meta partition, or stands alone.
	Mine func() bool
	// Here returns the quiet partitions that are led on this node, and Others the other nodes that answer: Ask asks one
	// of them for its own, in the words of merge.AppendQuiet. Others and Ask are nil on a node that stands alone.
	Here   func() []merge.Quiet
	Others func() []topology.NodeID
	Ask    func(ctx context.Context, node topology.NodeID) ([]byte, error)
	// Alone, if not nil, carries out what was ordered, on a node that stands alone; Level is its feature level.
	Alone func(ctx context.Context) error
	Level func() feature.Level
	Log   *slog.Logger
	// Sched is what it tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler

	asked time.Time
}

// Run orders until ctx ends.
func (m *Merger) Run(ctx context.Context) {
	for m.Sched.Sleep(ctx, lookEvery) == nil {
		if m.Mine() {
			m.round(ctx)
		}
	}
}

// round orders what is due.
func (m *Merger) round(ctx context.Context) {
	var quiet []merge.Quiet
	now := m.Sched.Now()
	if m.Rules.For > 0 && now.Sub(m.asked) >= min(askEvery, m.Rules.For) && ableIn(m.Records.State()) {
		m.asked = now
		quiet = m.ask(ctx)
	}
	state := m.Records.State()
	if orders := m.due(state, quiet); len(orders) == 0 {
		return
	}
	ctx, cancel := m.Sched.WithTimeout(ctx, orderMax)
	defer cancel()
	var told []order
	_, err := m.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		told = nil
		for _, o := range m.due(s, quiet) {
			next, gathering, err := o.Apply(s, m.Sched.Wall())
			if err != nil {
				m.Log.LogAttrs(ctx, slog.LevelDebug, "partitions not merged", slog.String("error", err.Error()))
				continue
			}
			told = append(told, order{o, gathering})
			s = next
		}
		return s, nil
	})
	if err == nil && len(told) > 0 {
		for _, o := range told {
			o.log(ctx, m.Log)
		}
		if m.Alone != nil {
			err = m.Alone(ctx)
		}
	}
	if err != nil {
		m.Log.LogAttrs(ctx, slog.LevelDebug, "partitions not merged", slog.String("error", err.Error()))
	}
}

// ask returns what the leaders on all nodes say of quiet partitions. The nodes are asked one after the other; one that
// does not answer, because it is busy or of an older build, is left out: what it leads is not merged then.
func (m *Merger) ask(ctx context.Context) []merge.Quiet {
	out := m.Here()
	if m.Others == nil {
		return out
	}
	ctx, cancel := m.Sched.WithTimeout(ctx, askAllWait)
	defer cancel()
	for _, node := range m.Others() {
		asking, done := m.Sched.WithTimeout(ctx, askWait)
		b, err := m.Ask(asking, node)
		done()
		var list []merge.Quiet
		if err == nil {
			list, err = merge.DecodeQuiet(b)
		}
		if err != nil {
			m.Log.LogAttrs(ctx, slog.LevelDebug, "node did not tell its quiet partitions",
				slog.String("node", node.Short()), slog.String("error", err.Error()))
			continue
		}
		out = append(out, list...)
	}
	return out
}

// order is what a round has recorded.
type order struct {
	merge.Order
	gathering bool
}

func (o *order) log(ctx context.Context, log *slog.Logger) {
	text := "merge ordered"
	if o.gathering {
		text = "partitions are brought together to be merged"
	}
	log.LogAttrs(ctx, slog.LevelInfo, text, slog.Uint64("partition", uint64(o.First)),
		slog.Uint64("right", uint64(o.Second)), slog.String("cause", o.Cause.String()))
}

// due are the merges that are to be ordered in a state.
func (m *Merger) due(s *meta.State, quiet []merge.Quiet) []merge.Order {
	now := m.Sched.Wall()
	orders := append(merge.Gathered(s, now), m.Rules.Choose(s, quiet, now)...)
	for i := range orders {
		orders[i].Level = m.Level()
	}
	return orders
}

// ableIn reports whether a state has partitions that could be merged: without any nobody is asked.
func ableIn(s *meta.State) bool {
	able := merge.Able(s)
	for p := range s.Map.All() {
		if able(p) {
			return true
		}
	}
	return false
}
