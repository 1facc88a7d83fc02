// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
)

// Batches knows which atomic batches over several partitions are in the batch log. It must be safe for concurrent use.
type Batches interface {
	// Recorded reports whether a batch is in the batch log at some time after the call. A removed batch never returns.
	Recorded(ctx context.Context, batch [16]byte) (bool, error)
}

// SetBatches sets the source of this information. Until this call, old parts of batches are rejected.
func (e *extensions) SetBatches(b Batches) { e.batches.Store(&b) }

// askingMax bounds the concurrent queries of a node to Batches.
const askingMax = 16

// recordMissing handles a conditional without a dedupe record. The conditional may have been applied, because the
// record may have been swept since. It returns nil if the conditional was certainly not applied. The caller must hold
// the latch and must have looked up the record under it.
//
// A dedupe record is kept for command.DedupeSeconds after its write, so a conditional younger than Options.DedupeReach
// was not applied. A part of an atomic batch may be sent as long as the batch is in the batch log, and its dedupe
// record is kept at least as long (storage.SweepNode). If the batch is still in the log, the part was not
// applied; otherwise, all of its parts were applied. Any other conditional of that age is rejected with ErrUncertain.
func (h *Host) recordMissing(ctx context.Context, c *command.Conditional) (*command.CASResult, error) {
	m := &c.Mutation
	now := h.opts.Clock.Wall()
	if m.Timestamp == 0 { // not a part of a batch
		age := time.Duration(now.Unix()-c.Issued) * time.Second
		if c.Issued != 0 && max(age, -age) > h.opts.DedupeReach {
			return nil, fmt.Errorf("%w: the command is %v old", ErrUncertain, age)
		}
		return nil, nil
	}
	if time.Duration(now.UnixMicro()-m.Timestamp)*time.Microsecond < h.opts.DedupeReach {
		return nil, nil
	}
	recorded, err := h.recorded(ctx, m.Dedupe.Coordinator)
	if err != nil || recorded {
		return nil, err
	}
	return &command.CASResult{Applied: true}, nil
}

// recorded reports whether a batch is in the batch log. An error becomes ErrUncertain.
func (e *extensions) recorded(ctx context.Context, batch [16]byte) (bool, error) {
	b := e.batches.Load()
	defer e.asking.Add(-1)
	if e.asking.Add(1) > askingMax || b == nil {
		return false, ErrUncertain
	}
	recorded, err := (*b).Recorded(ctx, batch)
	if err != nil {
		err = fmt.Errorf("%w: cannot determine whether batch %x is recorded: %w", ErrUncertain, batch, err)
	}
	return recorded, err
}
