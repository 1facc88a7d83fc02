// SPDX-License-Identifier: Apache-2.0

package autosplit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

const (
	// collectInterval is the interval at which the controller collects merge candidates from the leaders. A shorter
	// idle period also shortens this interval.
	collectInterval = 15 * time.Second
	// collectTimeout is the maximum wait for the candidates of all nodes.
	collectTimeout = 10 * time.Second
)

// updateCandidate updates the time for which a partition has been idle.
func (w *SplitController) updateCandidate(now time.Time, p *topology.Partition, s *partitionState) {
	if w.IdlePeriod <= 0 || s.measuredAt.IsZero() {
		return
	}
	if _, _, hot := s.hotspot.Hot(); hot {
		s.idle = merge.IdleTracker{} // the partitions around a hot key must remain separate
	}
	q := merge.Candidate{Partition: p.ID, Epoch: p.Epoch, Bytes: s.report.Bytes, Load: s.report.Load}
	q.SmallFor, q.IdleFor = s.idle.Observe(now, q.Bytes, s.report.SizeLimit, q.Load, w.LoadLimit)
	w.update(func() { s.candidate = q })
}

// Candidates returns the partitions that this node leads, that have been idle for IdlePeriod, and that can be merged
// with a neighbor.
func (w *SplitController) Candidates() (out []merge.Candidate) {
	w.mu.Lock()
	for _, s := range w.states {
		if w.IdlePeriod > 0 && min(s.candidate.SmallFor, s.candidate.IdleFor) >= w.IdlePeriod {
			out = append(out, s.candidate)
		}
	}
	w.mu.Unlock()
	s := w.Metadata.State()
	m, canMerge := s.Topology, merge.CanMerge(s)
	out = slices.DeleteFunc(out, func(q merge.Candidate) bool {
		p := m.Partition(q.Partition)
		if p == nil {
			return true
		}
		ps, i := m.Partitions(p.Table), m.Find(p.Table, p.Span.Begin)
		return !canMerge(p) && (i+1 >= len(ps) || !canMerge(ps[i+1]))
	})
	slices.SortFunc(out, func(a, b merge.Candidate) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// CandidatesCall requests the merge candidates that a node leads.
var CandidatesCall = rpc.Declare[rpc.None, merge.Candidates](rpc.Spec{Name: "merge candidates", Number: 72, Since: 3,
	Timeout: time.Second, ResponseMax: 4 << 20, Idempotent: true})

// MergeController requests merges of idle neighbors and of neighbors whose replicas have been colocated for a merge.
type MergeController struct {
	*Options
	splits  *SplitController // holds the merge candidates among the partitions that this node leads
	queries *clusterquery.Client
	rules   merge.Rules
	askedAt time.Time
}

// NewMergeController returns a MergeController with the options of a SplitController. queries collects the candidates
// of the other nodes. It is nil on a standalone node. The MergeController is active while Run runs.
func NewMergeController(splits *SplitController, queries *clusterquery.Client) *MergeController {
	o := &splits.Options
	m := &MergeController{Options: o, splits: splits, queries: queries,
		rules: merge.Rules{Limits: o.Limits, LoadLimit: o.LoadLimit, IdlePeriod: o.IdlePeriod}}
	if queries != nil {
		m.rules.Nodes = queries
	}
	return m
}

// Run requests merges until ctx ends.
func (m *MergeController) Run(ctx context.Context) {
	for m.Sched.Sleep(ctx, roundInterval) == nil {
		if m.decides() {
			m.round(ctx)
		}
	}
}

// round requests the merges that are due.
func (m *MergeController) round(ctx context.Context) {
	var candidates []merge.Candidate
	now := m.Sched.Now()
	if m.rules.IdlePeriod > 0 && now.Sub(m.askedAt) >= min(collectInterval, m.rules.IdlePeriod) &&
		anyCanMerge(m.Metadata.State()) {
		m.askedAt = now
		candidates = m.collectCandidates(ctx)
	}
	state := m.Metadata.State()
	if requests := m.due(state, candidates); len(requests) == 0 {
		return
	}
	ctx, cancel := m.Sched.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var recorded []recordedMerge
	_, err := m.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		recorded = nil
		for _, o := range m.due(s, candidates) {
			next, colocating, err := o.Apply(s, m.Sched.Wall())
			if err != nil {
				m.Log.LogAttrs(ctx, slog.LevelDebug, "partitions not merged", slog.String("error", err.Error()))
				continue
			}
			recorded = append(recorded, recordedMerge{o, colocating})
			s = next
		}
		return s, nil
	})
	if err == nil && len(recorded) > 0 {
		for _, o := range recorded {
			o.log(ctx, m.Log)
		}
		if m.Standalone != nil {
			err = m.Standalone.ApplyMerges(ctx)
		}
	}
	if err != nil {
		m.Log.LogAttrs(ctx, slog.LevelDebug, "partitions not merged", slog.String("error", err.Error()))
	}
}

// collectCandidates collects the merge candidates of all nodes, one node after the other. It skips a node that does not
// respond. The partitions of this node are then not merged in this round.
func (m *MergeController) collectCandidates(ctx context.Context) []merge.Candidate {
	out := m.splits.Candidates()
	ctx, cancel := m.Sched.WithTimeout(ctx, collectTimeout)
	defer cancel()
	for _, node := range m.queries.LiveNodes() {
		list, err := clusterquery.Query(ctx, m.queries, node, CandidatesCall, rpc.None{})
		if err != nil {
			m.Log.LogAttrs(ctx, slog.LevelDebug, "merge candidates not received",
				slog.String("node", node.Short()), slog.String("error", err.Error()))
			continue
		}
		out = append(out, list...)
	}
	return out
}

// recordedMerge is a merge request that a round has recorded.
type recordedMerge struct {
	merge.Request
	colocating bool
}

func (o *recordedMerge) log(ctx context.Context, log *slog.Logger) {
	text := "merge requested"
	if o.colocating {
		text = "moving replicas to the same nodes for a merge"
	}
	log.LogAttrs(ctx, slog.LevelInfo, text, slog.Uint64("partition", uint64(o.First)),
		slog.Uint64("right", uint64(o.Second)), slog.String("cause", o.Cause.String()))
}

// due returns the merges that are due in a state.
func (m *MergeController) due(s *meta.State, candidates []merge.Candidate) []merge.Request {
	now := m.Sched.Wall()
	requests := append(merge.ColocatedRequests(s, now), m.rules.Choose(s, candidates, now)...)
	for i := range requests {
		requests[i].Level = m.level()
	}
	return requests
}

// anyCanMerge reports whether a state has partitions that can be merged.
func anyCanMerge(s *meta.State) bool {
	canMerge := merge.CanMerge(s)
	for p := range s.Topology.All() {
		if canMerge(p) {
			return true
		}
	}
	return false
}
