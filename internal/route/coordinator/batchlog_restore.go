// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// RestoreBatch finishes an atomic batch of another cluster, given its batch log entry. It applies the remaining parts
// with the batch's own timestamp. table maps table IDs of the other cluster to IDs of this cluster. It returns false
// for tables that are not restored. applied reports whether the restored rows already contain a part.
func (c *Coordinator) RestoreBatch(ctx context.Context, id [16]byte, recorded []byte,
	table func(was uint32) (is uint32, ok bool), applied func(part uint64) bool) error {
	r, err := decodeBatchlogEntry(id, recorded)
	if err != nil {
		return fmt.Errorf("batch %x: %w", id, err)
	}
	// The batch log does not contain the batch. Leaders would take this to mean that an old batch is complete.
	r.issued = c.opts.Clock.Wall().UnixMicro()
	e := c.newRequest(dberr.Quorum, c.opts.WriteTimeout)
	for i, u := range r.parts {
		is, ok := table(u.Mutation.Table)
		if !ok || applied(uint64(i)) {
			continue
		}
		u.Mutation.Table, u.Log = is, nil
		if err := c.cluster.Batches.Replan(u); errors.Is(err, ErrUnknownTable) {
			continue
		} else if err != nil {
			return fmt.Errorf("batch %x: %w", id, err)
		}
		own := e
		if err := own.applyPart(ctx, r, i, batchStamp, nil); err != nil {
			return fmt.Errorf("batch %x: %w", id, err)
		}
	}
	return nil
}
