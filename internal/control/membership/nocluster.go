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

// bootstrapWait is the time for which a bootstrapping node searches for an existing cluster. It must exceed the
// differences between the start times of nodes that start together and the time until a DNS name is published.
const bootstrapWait = 10 * time.Second

// NoClusterFound reports whether no node of a cluster responds for ten seconds. Orchestrators start all nodes with
// --bootstrap and --join, so the first node must determine whether the cluster already exists. NoClusterFound returns
// an error if this node cannot join the responding node, because a second cluster would hide the data of the existing
// cluster.
func (k *ClusterFinder) NoClusterFound(ctx context.Context) (bool, error) {
	if len(k.Addresses) == 0 {
		return true, nil
	}
	k.Log.LogAttrs(ctx, slog.LevelInfo, "looking for the cluster before bootstrap",
		slog.Any("join", k.Addresses), slog.Duration("for", bootstrapWait))
	begun := k.Sched.Now()
	for timeout := firstAttemptTimeout; k.Sched.Since(begun) < bootstrapWait; timeout = min(2*timeout,
		attemptTimeout/2) {
		for _, address := range k.Addresses {
			ask, cancel := k.Sched.WithTimeout(ctx, timeout)
			_, err := k.QueryCluster(ask, address)
			cancel()
			switch {
			case err == nil:
				return false, nil
			case ctx.Err() != nil:
				return false, ctx.Err()
			case errors.Is(err, transport.ErrDuplicateNode), errors.Is(err, transport.ErrBusy):
				return false, nil // the node belongs to a cluster
			case isPermanent(err):
				return false, fmt.Errorf("cannot bootstrap: a node that may belong to a cluster responds: %s",
					oneLine(explain(err)))
			}
		}
		if err := k.Sched.Sleep(ctx, joinPause); err != nil {
			return false, err
		}
	}
	return true, nil
}
