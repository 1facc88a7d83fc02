// SPDX-License-Identifier: Apache-2.0

package autosplit

import (
	"context"
	"log/slog"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/control/throughput"
)

// ThroughputSplitter requests splits of tables that have too few partitions for their provisioned throughput.
type ThroughputSplitter struct {
	*Options
	// satisfied is a state in which no table needs a split.
	satisfied *meta.State
}

// Run requests splits until ctx ends.
func (p *ThroughputSplitter) Run(ctx context.Context) {
	for p.Sched.Sleep(ctx, roundInterval) == nil {
		if p.decides() {
			p.round(ctx)
		}
	}
}

// round requests the splits that are due.
func (p *ThroughputSplitter) round(ctx context.Context) {
	state := p.Metadata.State()
	if state == p.satisfied {
		return
	}
	if len(throughput.Splits(state)) == 0 {
		p.satisfied = state
		return
	}
	ctx, cancel := p.Sched.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var recorded []split.Request
	_, err := p.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		recorded = nil
		for _, o := range throughput.Splits(s) {
			o.Level = p.level()
			next, err := o.Apply(s, p.Sched.Wall())
			if err != nil {
				p.Log.LogAttrs(ctx, slog.LevelDebug, "split for throughput postponed",
					slog.Uint64("partition", uint64(o.Partition)), slog.String("error", err.Error()))
				break // usually because of the limit of concurrent splits
			}
			recorded = append(recorded, o)
			s = next
		}
		return s, nil
	})
	if err == nil && len(recorded) > 0 {
		for _, o := range recorded {
			p.Log.LogAttrs(ctx, slog.LevelInfo, "split requested", slog.Uint64("partition", uint64(o.Partition)),
				slog.String("at", o.At.String()), slog.String("cause", o.Cause.String()))
		}
		err = p.executeSplits(ctx)
	}
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelDebug, "splits for throughput failed",
			slog.String("error", err.Error()))
	}
}
