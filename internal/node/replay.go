// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"time"
)

const (
	// replayEvery is how often a node looks for atomic batches whose coordinator is gone, replayAfter how old they are
	// then at least.
	replayEvery = 5 * time.Second
	replayAfter = 10 * time.Second
)

// replay finishes atomic batches whose coordinator is gone, or has given up, until ctx ends.
func (n *Node) replay(ctx context.Context) {
	t := time.NewTicker(replayEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		n.finishBatches(ctx, replayAfter)
	}
}

// finishOwnBatches finishes the batches that this process left before it ended, before clients come. Only a node that
// has no others knows that all are its own.
func (n *Node) finishOwnBatches(ctx context.Context) {
	const whateverItsStamp = -24 * time.Hour // stamps may be ahead of the clock
	for n.finishBatches(ctx, whateverItsStamp) > 0 && ctx.Err() == nil {
	}
}

func (n *Node) finishBatches(ctx context.Context, olderThan time.Duration) int {
	done, err := n.coordinator.ReplayBatches(ctx, olderThan)
	if done > 0 {
		n.log.LogAttrs(ctx, slog.LevelInfo, "unfinished batches written", slog.Int("batches", done))
	}
	if err != nil && ctx.Err() == nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "unfinished batches not written", slog.String("error", err.Error()))
	}
	return done
}
