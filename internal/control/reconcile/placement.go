// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// placementInterval is the time between two checks for changes. placementIdleInterval is the time between two
	// checks while the state does not change, because sizes and free space change slowly.
	placementInterval     = 500 * time.Millisecond
	placementIdleInterval = 5 * time.Second
)

// PlacementReconciler records the changes that package placement schedules. It is active on the node that leads the
// meta partition. The caller must set the exported fields before it calls Run.
type PlacementReconciler struct {
	Keeper *meta.Keeper
	Member Member
	Log    *slog.Logger
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler

	planner placement.Planner
	// idleState is the state in which no change was necessary at idleSince. down holds the nodes that were down at that
	// time.
	idleState *meta.State
	idleSince time.Time
	down      map[topology.NodeID]time.Time
}

// Run records changes until ctx ends.
func (p *PlacementReconciler) Run(ctx context.Context) {
	runEvery(ctx, p.Sched, placementInterval, func() {
		if !p.Member.LeadsMeta() {
			return
		}
		if err := p.round(ctx); err != nil && ctx.Err() == nil {
			p.Log.LogAttrs(ctx, slog.LevelWarn, "placement failed; retrying", slog.String("error", err.Error()))
		}
	})
}

func (p *PlacementReconciler) round(ctx context.Context) error {
	state, view := p.Keeper.State(), p.Member.View()
	if state == p.idleState && p.Sched.Since(p.idleSince) < placementIdleInterval && maps.Equal(view.Down, p.down) {
		return nil
	}
	if s, actions := p.decide(state); len(actions) == 0 && s == state {
		p.idleState, p.idleSince, p.down = state, p.Sched.Now(), view.Down
		return nil
	}
	p.idleState = nil
	ctx, cancel := p.Sched.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var told []string
	_, err := p.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		told = nil
		next, actions := p.decide(s)
		m, err := placement.Apply(next.Topology, actions, p.Sched.Wall())
		if err != nil {
			return nil, err
		}
		for _, a := range actions {
			told = append(told, a.String())
		}
		if m == next.Topology {
			return next, nil
		}
		return next.WithTopology(m), nil
	})
	if err != nil {
		return err
	}
	for _, text := range told {
		p.Log.LogAttrs(ctx, slog.LevelInfo, "placement", slog.String("action", text))
	}
	return nil
}

// decide returns the actions to record. In the returned state, leaving nodes without replicas have left.
func (p *PlacementReconciler) decide(s *meta.State) (*meta.State, []placement.Action) {
	actions := p.planner.Schedule(s, p.Member.View())
	for _, n := range s.Nodes {
		if n.State == meta.Leaving && placement.Holds(s, n.ID) == 0 {
			left := *n
			left.State = meta.Left
			s = s.WithNode(&left)
		}
	}
	return s, actions
}
