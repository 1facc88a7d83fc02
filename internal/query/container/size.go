// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
)

// Size holds the approximate size of a physical partition and the number of its logical partitions. The size is in
// bytes of one replica on disk, without indexes and data in memory.
type Size struct{ DiskBytes, Keys uint64 }

// Sizes returns the sizes of a container's physical partitions in the order of Ranges. Partitions of nodes that do not
// respond have zero sizes.
func (e *Engine) Sizes(ctx context.Context, c *Container) []Size {
	partitions := e.opts.Coordinator.Topology().Partitions(c.table.ID)
	out := make([]Size, len(partitions))
	if e.opts.Sizes == nil {
		return out
	}
	sizes := e.opts.Sizes.ContainerSizes(ctx, c.table.ID)
	for i, p := range partitions {
		out[i] = sizes[p.ID]
	}
	return out
}
