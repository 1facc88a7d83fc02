// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// foundingWait is for how long the founder of a cluster looks for one that is there already: longer than nodes that
// are started together are apart, and than a name takes to be known.
const foundingWait = 10 * time.Second

// Unfounded reports whether none of the addresses belongs to a cluster, as far as can be known: nobody answers there
// for ten seconds. It is for nodes that are all told the same, to found a cluster and to join it: an orchestrator knows
// no first start, so the node that founds has to see by itself that its disk is new and the cluster is not. Whoever
// answers, and cannot be joined, is an error: the cluster may be there, and a second one would hide its data.
func (k *Seeker) Unfounded(ctx context.Context) (bool, error) {
	if len(k.Addresses) == 0 {
		return true, nil
	}
	k.Log.LogAttrs(ctx, slog.LevelInfo, "looking for the cluster before one is founded",
		slog.Any("join", k.Addresses), slog.Duration("for", foundingWait))
	begun := k.Sched.Now()
	for patience := askSoon; k.Sched.Since(begun) < foundingWait; patience = min(2*patience, askTimeout/2) {
		for _, address := range k.Addresses {
			ask, cancel := k.Sched.WithTimeout(ctx, patience)
			_, err := k.Ask(ask, address)
			cancel()
			switch {
			case err == nil:
				return false, nil
			case ctx.Err() != nil:
				return false, ctx.Err()
			case errors.Is(err, transport.ErrDuplicateNode), errors.Is(err, transport.ErrBusy):
				return false, nil // it is a node of the cluster
			case hopeless(err):
				return false, fmt.Errorf("no cluster is founded while a node answers that may belong to one: %s",
					oneLine(explain(err)))
			}
		}
		if err := k.Sched.Sleep(ctx, joinPause); err != nil {
			return false, err
		}
	}
	return true, nil
}
