// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// MergeCandidates requests the merge candidates that a node leads, encoded as by Host.MergeCandidates.
func (p *Peers) MergeCandidates(ctx context.Context, node topology.NodeID) ([]byte, error) {
	return p.caller.Call(ctx, node, []byte{kindMergeCandidates})
}
