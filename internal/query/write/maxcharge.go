// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// affords refuses what costs more than its client allows. The price of mutations is known. What depends on stored rows
// is priced by its leader, which refuses it before it is proposed. Where there are several of that, in several
// partitions, one must not be refused when others are done: so the rows of all are looked at before any is sent. What
// somebody else adds to them between is not counted.
func (x *Execution) checkMaxCharge(ctx context.Context, decisions int64) error {
	if x.maxCharge == 0 {
		return nil
	}
	var price ru.Units
	for i := range x.mutations {
		u, _ := ru.Write(&x.mutations[i])
		price += u
	}
	for i := range x.groups[:x.used] {
		g := &x.groups[i]
		if !g.needsLeader() {
			continue
		}
		if decisions == 1 && len(x.mutations) == 0 {
			g.conditional.MaxCharge = int64(x.maxCharge)
			return nil
		}
		u, err := x.executor.priceOf(ctx, &g.conditional)
		if err != nil {
			return err
		}
		price += u
	}
	if price > x.maxCharge {
		return ru.Exceeded(price, x.maxCharge)
	}
	return nil
}

// priceOf is what a conditional without conditions would cost now.
func (e *Executor) priceOf(ctx context.Context, c *command.Conditional) (ru.Units, error) {
	if e.opts.Find == nil {
		return 0, nil
	}
	found, looking, err := e.opts.Find(ctx, c)
	if err != nil {
		return looking, err
	}
	whole := c.Mutation
	if whole.Ops, err = command.Resolve(slices.Clip(whole.Ops), c, found, row.Unstamped); err != nil {
		return 0, err
	}
	u, _ := ru.Write(&whole)
	return u + ru.Found(c, found), nil
}
