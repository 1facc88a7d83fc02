// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// RestoreBatch finishes an atomic batch of another cluster. recorded is the batch log entry. RestoreBatch applies the
// remaining parts with the timestamp of the batch. table maps table IDs of the other cluster to table IDs of this
// cluster. For tables that are not restored, table returns false. applied reports whether the restored rows already
// contain a part.
func (c *Coordinator) RestoreBatch(ctx context.Context, id [16]byte, recorded []byte,
	table func(was uint32) (is uint32, ok bool), applied func(part uint64) bool) error {
	r, err := decodeBatchlogEntry(id, recorded)
	if err != nil {
		return fmt.Errorf("batch %x: %w", id, err)
	}
	// The batch log of this cluster does not contain the batch. Without a recent time, leaders would treat the batch as
	// complete.
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
