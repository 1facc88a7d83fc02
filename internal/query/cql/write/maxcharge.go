// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// checkMaxCharge rejects a write that exceeds the client's maximum charge. The cost of mutations is known. The leader
// computes the cost of a conditional and rejects it before it is proposed. If several conditionals change several
// partitions, no conditional must be rejected after another has been applied. Therefore, the rows of all conditionals
// are read before any conditional is sent. Concurrent changes to these rows are not taken into account.
func (x *Execution) checkMaxCharge(ctx context.Context, decisions int64) error {
	if x.maxCharge == 0 {
		return nil
	}
	var price ru.Units
	for i := range x.mutations {
		u, _ := ru.Write(&x.mutations[i])
		price += u
	}
	groups := x.changes.groups.all()
	for i := range groups {
		g := &groups[i]
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

// priceOf returns the current cost of a conditional without conditions.
func (e *Executor) priceOf(ctx context.Context, c *command.Conditional) (ru.Units, error) {
	if e.opts.Pricing == nil {
		return 0, nil
	}
	found, looking, err := e.opts.Pricing.Find(ctx, c)
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
