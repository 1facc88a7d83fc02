// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
)

// Size is about how large a physical partition is: one replica on disk, without the index and what is in memory only,
// and its logical partitions.
type Size struct{ DiskBytes, Keys uint64 }

// Sizes are those of the physical partitions of a container, in the order of Ranges. What nodes have that do not answer
// is left out as nothing.
func (e *Engine) Sizes(ctx context.Context, c *Container) []Size {
	partitions := e.opts.Coordinator.Topology().Partitions(c.table.ID)
	out := make([]Size, len(partitions))
	if e.opts.Sizes == nil {
		return out
	}
	sizes := e.opts.Sizes(ctx, c.table.ID)
	for i, p := range partitions {
		out[i] = sizes[p.ID]
	}
	return out
}
