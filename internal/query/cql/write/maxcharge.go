// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// checkMaxCharge rejects a write that exceeds the client's maximum charge. The cost of mutations is known. For a single
// conditional, the leader computes the cost before it proposes the conditional. If a write consists of several
// conditionals, checkMaxCharge reads the rows of all conditionals before any conditional is sent. Otherwise, a leader
// could reject a conditional after another conditional has been applied. Concurrent changes to the rows are ignored.
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

// priceOf returns the cost of a conditional for the current rows. The conditional must not contain conditions.
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
