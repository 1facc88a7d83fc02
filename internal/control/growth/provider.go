// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"context"
	"log/slog"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// Provider orders the splits without which a throughput could not be spent. Its fields are set before Run.
type Provider struct {
	Records *meta.Keeper
	// Mine reports whether this node decides: it leads the meta partition, or stands alone.
	Mine func() bool
	// Alone, if not nil, carries out what was ordered, on a node that stands alone; Level is its feature level.
	Alone func(ctx context.Context) error
	Level func() feature.Level
	Log   *slog.Logger
	// Sched is what it tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler

	// provided is a state in which nothing was to be done.
	provided *meta.State
}

// Run orders until ctx ends.
func (p *Provider) Run(ctx context.Context) {
	for p.Sched.Sleep(ctx, lookEvery) == nil {
		if p.Mine() {
			p.round(ctx)
		}
	}
}

// round orders what is due.
func (p *Provider) round(ctx context.Context) {
	state := p.Records.State()
	if state == p.provided {
		return
	}
	if len(throughput.Splits(state)) == 0 {
		p.provided = state
		return
	}
	ctx, cancel := p.Sched.WithTimeout(ctx, orderMax)
	defer cancel()
	var told []split.Order
	_, err := p.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		told = nil
		for _, o := range throughput.Splits(s) {
			o.Level = p.Level()
			next, err := o.Apply(s, p.Sched.Wall())
			if err != nil {
				p.Log.LogAttrs(ctx, slog.LevelDebug, "partition not split for its throughput yet",
					slog.Uint64("partition", uint64(o.Partition)), slog.String("error", err.Error()))
				break // as a rule because enough are under way
			}
			told = append(told, o)
			s = next
		}
		return s, nil
	})
	if err == nil && len(told) > 0 {
		for _, o := range told {
			p.Log.LogAttrs(ctx, slog.LevelInfo, "split ordered", slog.Uint64("partition", uint64(o.Partition)),
				slog.String("at", o.At.String()), slog.String("cause", o.Cause.String()))
		}
		if p.Alone != nil {
			err = p.Alone(ctx)
		}
	}
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelDebug, "partitions not split for their throughput",
			slog.String("error", err.Error()))
	}
}
