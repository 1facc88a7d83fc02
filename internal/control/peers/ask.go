// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Ask asks a node about a subject that is nothing to the cluster itself, such as what operators want to see. subject
// has no byte 0; question and answer are in the words of whoever asks about it and Host.Answer. Builds that do not know
// the subject answer with an error.
func (p *Peers) Ask(ctx context.Context, node topology.NodeID, subject string, question []byte) ([]byte, error) {
	return p.caller.Call(ctx, node, slices.Concat([]byte{kindAsk}, []byte(subject), []byte{0}, question))
}
