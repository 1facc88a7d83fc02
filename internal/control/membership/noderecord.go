// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// NodeRecordUpdater updates the node's own record after a restart. A restart may change addresses, and it ends a drain.
// The caller must set the exported fields before it calls Run.
type NodeRecordUpdater struct {
	Metadata *meta.Keeper
	Node     Node
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Run returns when the record is current or ctx has ended.
func (p *NodeRecordUpdater) Run(ctx context.Context) {
	for p.update(ctx) != nil {
		if p.Sched.Sleep(ctx, joinPause) != nil {
			return
		}
	}
}

func (p *NodeRecordUpdater) update(ctx context.Context) error {
	ctx, cancel := p.Sched.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := p.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		is := p.Node.Record()
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
