// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Query sends a node a query about a subject that this package does not interpret, such as the data that operators
// view. subject must not contain a 0 byte. The sender and Host.HandleQuery define the formats of question and response.
// Versions that do not know the subject return an error.
func (p *Peers) Query(ctx context.Context, node topology.NodeID, subject string, question []byte) ([]byte, error) {
	return p.caller.Call(ctx, node, slices.Concat([]byte{kindQuery}, []byte(subject), []byte{0}, question))
}
