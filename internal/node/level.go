// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// RaiseLevel raises the feature level to the newest that every node of the cluster understands, and returns it. There
// is no way back: builds that do not understand the level are refused from then on. In a cluster the leaders of the
// partitions raise theirs soon after.
func (n *Node) RaiseLevel(ctx context.Context) (feature.Level, error) {
	if n.cluster == nil {
		if err := n.store.Raise(n.levels.Newest); err != nil {
			return 0, err
		}
		return n.store.Level(), n.raisePartitions(ctx)
	}
	s, err := n.records.Update(ctx, (*meta.State).Raised)
	if err != nil {
		return 0, err
	}
	return s.Map.Level(), nil
}

// raisePartitions raises the partitions of a node that stands alone to the level of its directory. A crash may have
// come between.
func (n *Node) raisePartitions(ctx context.Context) error {
	level := n.store.Level()
	for _, r := range n.host.Replicas() {
		if r.Level() >= level {
			continue
		}
		if err := r.RaiseLevel(ctx, level); err != nil {
			return fmt.Errorf("raise partition %d to feature level %d: %w", r.ID(), level, err)
		}
	}
	return nil
}

// upgrade is RaiseLevel for an operator.
func (n *Node) upgrade(ctx context.Context) (string, error) {
	level, err := n.RaiseLevel(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("feature level %d", level), nil
}
