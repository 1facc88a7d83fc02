// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
)

// retries configures the attempts to take a consistent snapshot. A backup waits long; a mark of an archive must
// complete within its second.
type retries struct {
	tries int
	pause time.Duration
	// within is how long after the start another attempt may begin.
	within time.Duration
}

var (
	backupRetries = retries{tries: 10, pause: 200 * time.Millisecond, within: time.Minute}
	// A mark fails if the schema or a partition changes while it is taken. With retries within its second, no second is
	// lost while leaders are stable.
	markRetries = retries{tries: 8, pause: 20 * time.Millisecond, within: 900 * time.Millisecond}
)

// take tries to take a snapshot until it succeeds, ctx ends, or no attempts are left.
func (r retries) take(ctx context.Context, try func(context.Context) (*archive.Snapshot, error)) (*archive.Snapshot,
	error) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		taken, err := try(ctx)
		if err == nil {
			return taken, nil
		}
		if attempt == r.tries || time.Since(began)+r.pause > r.within {
			times := "attempts"
			if attempt == 1 {
				times = "attempt"
			}
			return nil, fmt.Errorf("cannot take a consistent snapshot of the cluster (%d %s): %w", attempt, times, err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(r.pause):
		}
	}
}
