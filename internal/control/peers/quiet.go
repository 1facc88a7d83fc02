// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Quiet asks a node which partitions it leads that are quiet, in the words of Host.Quiet.
func (p *Peers) Quiet(ctx context.Context, node topology.NodeID) ([]byte, error) {
	return p.caller.Call(ctx, node, []byte{kindQuiet})
}
