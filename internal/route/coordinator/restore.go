// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// RestoreBatch finishes an atomic batch of another cluster, as it was recorded there: what is left of it is applied
// with the batch's own stamp. table tells the tables that its parts are for here, and which of them are none of this
// cluster's business; applied which parts are in the rows already.
func (c *Coordinator) RestoreBatch(ctx context.Context, id [16]byte, recorded []byte,
	table func(was uint32) (is uint32, ok bool), applied func(part uint64) bool) error {
	r, err := decodeRecord(id, recorded)
	if err != nil {
		return fmt.Errorf("batch %x: %w", id, err)
	}
	r.issued = c.opts.Now().UnixMicro() // it is not recorded here, which leaders must not take for the end of it
	e := c.errand(dberr.Quorum, c.opts.WriteTimeout)
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
		if err := own.part(ctx, r, i, byBatch, nil); err != nil {
			return fmt.Errorf("batch %x: %w", id, err)
		}
	}
	return nil
}
