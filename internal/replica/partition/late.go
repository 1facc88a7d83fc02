// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
)

// Batches knows which atomic batches over several partitions are recorded. It is safe for concurrent use.
type Batches interface {
	// Recorded reports whether the record of a batch is there at a moment after the call. Once a record has been
	// removed it never comes back.
	Recorded(ctx context.Context, batch [16]byte) (bool, error)
}

// SetBatches says who knows that. Before, old parts of batches are refused.
func (h *Host) SetBatches(b Batches) { h.batches.Store(&b) }

// askingMax bounds the questions to Batches that a node has in flight.
const askingMax = 16

// late handles a conditional that has no dedupe record though it may have been applied: the record may have been swept
// since. It returns nil if the conditional was certainly not applied. The caller holds the latch, and has looked for
// the record under it.
//
// A dedupe record is kept for command.DedupeSeconds after its write, so a conditional that is younger than
// Options.DedupeReach was not applied. A part of an atomic batch may be sent as long as the batch is recorded, and its
// dedupe record is kept at least as long (storage.SweeperOptions.Recorded). If the batch is still recorded, the part
// was not applied; otherwise all its parts were. Anything else that old is refused with ErrUncertain.
func (r *Replica) late(ctx context.Context, c *command.Conditional) (*command.Decision, error) {
	m := &c.Mutation
	now := r.host.opts.Now()
	if m.Timestamp == 0 { // not a part of a batch
		age := time.Duration(now.Unix()-c.Issued) * time.Second
		if c.Issued != 0 && max(age, -age) > r.host.opts.DedupeReach {
			return nil, fmt.Errorf("%w: the command is %v old", ErrUncertain, age)
		}
		return nil, nil
	}
	if time.Duration(now.UnixMicro()-m.Timestamp)*time.Microsecond < r.host.opts.DedupeReach {
		return nil, nil
	}
	recorded, err := r.host.recorded(ctx, m.Dedupe.Coordinator)
	if err != nil || recorded {
		return nil, err
	}
	return &command.Decision{Applied: true}, nil
}

// recorded asks whether a batch is recorded. An error is ErrUncertain.
func (h *Host) recorded(ctx context.Context, batch [16]byte) (bool, error) {
	b := h.batches.Load()
	defer h.asking.Add(-1)
	if h.asking.Add(1) > askingMax || b == nil {
		return false, ErrUncertain
	}
	recorded, err := (*b).Recorded(ctx, batch)
	if err != nil {
		err = fmt.Errorf("%w: is batch %x recorded: %w", ErrUncertain, batch, err)
	}
	return recorded, err
}
