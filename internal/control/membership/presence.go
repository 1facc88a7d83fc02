// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// Presence keeps a node's own record true: addresses may change over a restart, and a drain ends with one. Its fields
// are set before Run.
type Presence struct {
	Records *meta.Keeper
	// Self is what the node says of itself, without its tokens and the time at which it joined.
	Self func() *meta.Node
	// Sched is what it waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Run returns when the record is true, or ctx has ended.
func (p *Presence) Run(ctx context.Context) {
	for p.update(ctx) != nil {
		if p.Sched.Sleep(ctx, joinPause) != nil {
			return
		}
	}
}

func (p *Presence) update(ctx context.Context) error {
	ctx, cancel := p.Sched.WithTimeout(ctx, orderMax)
	defer cancel()
	_, err := p.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		is := p.Self()
		was := s.Node(is.ID)
		if was == nil || was.State == meta.Left || was.State == meta.Leaving {
			return s, nil
		}
		is.Tokens, is.Joined = was.Tokens, was.Joined
		if bytes.Equal(is.Append(nil), was.Append(nil)) {
			return s, nil
		}
		return s.WithNode(is), nil
	})
	return err
}
