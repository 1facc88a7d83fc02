// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// placerEvery is the time between two looks at what may have changed, placerRests that between two looks at the map
	// while nothing has: time passes, and sizes and free space change slowly.
	placerEvery = 500 * time.Millisecond
	placerRests = 5 * time.Second
)

// Placer has the map want what placement schedules, on the node that leads the meta partition. Its fields are set
// before Run.
type Placer struct {
	Keeper *meta.Keeper
	// Mine reports whether this node leads the meta partition.
	Mine func() bool
	// View is what this node sees of the others.
	View func() placement.View
	// Done is told what was scheduled, Failed why nothing could be; it will be tried again.
	Done   func(action string)
	Failed func(err error)
	// Sched is what the loop waits by, nil outside simulations.
	Sched *sched.Scheduler

	planner placement.Planner
	// rests is the state in which nothing was to be done at the time looked, while down were away.
	rests  *meta.State
	looked time.Time
	down   map[topology.NodeID]time.Time
}

// Run decides until ctx ends.
func (p *Placer) Run(ctx context.Context) {
	every(ctx, p.Sched, placerEvery, func() {
		if !p.Mine() {
			return
		}
		if err := p.round(ctx); err != nil && ctx.Err() == nil {
			p.Failed(err)
		}
	})
}

func (p *Placer) round(ctx context.Context) error {
	state, view := p.Keeper.State(), p.View()
	if state == p.rests && p.Sched.Since(p.looked) < placerRests && maps.Equal(view.Down, p.down) {
		return nil
	}
	if s, actions := p.decide(state); len(actions) == 0 && s == state {
		p.rests, p.looked, p.down = state, p.Sched.Now(), view.Down
		return nil
	}
	p.rests = nil
	ctx, cancel := p.Sched.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var told []string
	_, err := p.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		told = nil
		next, actions := p.decide(s)
		m, err := placement.Apply(next.Map, actions, p.Sched.Wall())
		if err != nil {
			return nil, err
		}
		for _, a := range actions {
			told = append(told, a.String())
		}
		if m == next.Map {
			return next, nil
		}
		return next.WithMap(m), nil
	})
	if err != nil {
		return err
	}
	for _, text := range told {
		p.Done(text)
	}
	return nil
}

// decide returns what the map is to want, and a state in which nodes that were asked to leave and have nothing left
// have left.
func (p *Placer) decide(s *meta.State) (*meta.State, []placement.Action) {
	actions := p.planner.Schedule(s, p.View())
	for _, n := range s.Nodes {
		if n.State == meta.Leaving && placement.Holds(s, n.ID) == 0 {
			left := *n
			left.State = meta.Left
			s = s.WithNode(&left)
		}
	}
	return s, actions
}
