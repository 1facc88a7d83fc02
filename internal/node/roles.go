// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
)

// on reports whether clients have to log in.
func (a *AuthOptions) on() bool { return len(a.Users) > 0 || a.Roles }

// datacenters are those of the cluster, for roles that are bound to some.
func (n *Node) datacenters() []string {
	info := n.nodeInfo()
	return info.Datacenters()
}

// configured reports whether a name is a user of this node's configuration.
func (n *Node) configured(name string) bool { return n.logins != nil && n.logins.Configured(name) }

// ensureRoles gives the users of the configuration records, so that they are listed and can be granted things: before
// the first client comes, or in a cluster as soon as its meta partition has a leader. The users can log in before.
func (n *Node) ensureRoles() error {
	users := slices.Sorted(maps.Keys(n.opts.Auth.Users))
	if len(users) == 0 {
		return nil
	}
	if n.cluster == nil {
		return n.changer.EnsureRoles(context.Background(), users)
	}
	n.inBackground(func(ctx context.Context) {
		for ctx.Err() == nil {
			err := n.ensureOnce(ctx, users)
			if err == nil || errors.Is(err, meta.ErrClosed) {
				return
			}
			n.log.LogAttrs(ctx, slog.LevelDebug, "users of the configuration have no records yet",
				slog.String("error", err.Error()))
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return nil
}

func (n *Node) ensureOnce(ctx context.Context, users []string) error {
	ctx, cancel := context.WithTimeout(ctx, schemachange.Timeout)
	defer cancel()
	return n.changer.EnsureRoles(ctx, users)
}

// endLogins closes the connections of clients whose role was dropped or, if the configuration says so, whose
// credentials were changed.
func (n *Node) endLogins() {
	server := n.publishedCQL.Load()
	if server == nil {
		return // no client has connected yet
	}
	if count := server.EndLogins(n.authority.Ended); count > 0 {
		n.log.LogAttrs(context.Background(), slog.LevelInfo, "closed connections of dropped or changed roles",
			slog.Int("connections", count))
	}
}
