// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// RaiseLevel raises the feature level to the newest that every node of the cluster understands, and returns it. There is no way back: builds
// that do not understand the level are refused from then on.
func (n *Node) RaiseLevel(ctx context.Context) (feature.Level, error) {
	if n.cluster == nil {
		return n.store.Level(), n.store.Raise(n.levels.Newest)
	}
	s, err := n.records.Update(ctx, (*meta.State).Raised)
	if err != nil {
		return 0, err
	}
	return s.Map.Level(), nil
}
