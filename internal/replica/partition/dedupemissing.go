// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
)

// Batches looks up atomic batches in the batch log. Implementations must be safe for concurrent use.
type Batches interface {
	// Recorded reports whether a batch was in the batch log at some time after the call. A removed batch never
	// reappears.
	Recorded(ctx context.Context, batch [16]byte) (bool, error)
}

// SetBatches sets the Batches implementation. Before this call, replicas reject old parts of batches.
func (e *extensions) SetBatches(b Batches) { e.batches.Store(&b) }

// askingMax is the maximum number of concurrent queries of Batches on a node.
const askingMax = 16

// recordMissing handles a conditional without a dedupe record. The conditional may have been applied, because a sweep
// may have removed the record. recordMissing returns nil, nil if the conditional has definitely not been applied. The
// caller must have looked up the record while holding the latch.
//
// A dedupe record is kept for command.DedupeSeconds after the write, so a conditional younger than Options.DedupeReach
// has not been applied. The dedupe record of an atomic batch's part is kept at least while the batch is in the batch
// log (see storage.SweepNode). If the batch is in the log, the part has not been applied. Otherwise, all parts of the
// batch have been applied. All other conditionals are rejected with ErrUncertain.
func (h *Host) recordMissing(ctx context.Context, c *command.Conditional) (*command.CASResult, error) {
	m := &c.Mutation
	now := h.opts.Clock.Wall()
	if m.Timestamp == 0 { // the conditional is not a part of a batch
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

// recorded reports whether a batch is in the batch log. It converts errors to ErrUncertain.
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
