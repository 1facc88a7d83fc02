// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"maps"
	"slices"
)

// datacenters returns the data centers of the cluster, for roles that are restricted to some.
func (n *Node) datacenters() []string {
	info := n.nodeInfo()
	return info.Datacenters()
}

// configured reports whether a name is a user in this node's configuration.
func (n *Node) configured(name string) bool { return n.logins != nil && n.logins.Configured(name) }

// ensureRoles creates role records for the configured users, so that they are listed and can be granted permissions. A
// standalone node does this before the first client; a cluster does it as soon as the meta partition has a leader. The
// users can log in before.
func (n *Node) ensureRoles() error {
	users := slices.Sorted(maps.Keys(n.opts.Auth.Users))
	switch {
	case len(users) == 0:
		return nil
	case n.cluster == nil:
		return n.changer.EnsureRoles(context.Background(), users)
	}
	n.life.Background(func(ctx context.Context) { n.changer.RetryEnsureRoles(ctx, users, n.log) })
	return nil
}
