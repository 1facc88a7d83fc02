// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// newStartup returns the component that decides how this node starts.
func (n *Node) newStartup() *membership.Startup {
	nodeTLS, certified := n.certificates.Nodes()
	c := &n.opts.Cluster
	return &membership.Startup{Internal: c.Internal, Addresses: []string{c.Advertise, n.InternalAddr()},
		Bootstrap: c.Bootstrap, Join: c.Join, Certified: certified, Secret: n.joinSecret, Log: n.log,
		QueryCluster: func(ctx context.Context, address string) (transport.ClusterID, error) {
			id, _, err := transport.Identify(ctx, transport.DialTCP, nodeTLS, n.joinSecret.Value(), address)
			return id, err
		},
	}
}

// joining returns the node's Joiner.
func (c *cluster) joining() *membership.Joiner {
	n := c.n
	return &membership.Joiner{
		ClusterFinder: n.startup.Finder(), Cluster: n.store.Identity().Cluster, Node: localNode{c},
		Network: c.transport, Metadata: n.metadata, Host: n.host,
	}
}

// join joins the cluster and waits for its metadata.
func (c *cluster) join(ctx context.Context) error {
	known, err := membership.IsMember(c.n.store.Records)
	if err != nil {
		return err
	}
	if err := c.joining().Run(ctx, known); err != nil {
		return err
	}
	return membership.CheckRegion(c.n.metadata.State(), c.n.opts.Region, c.n.store)
}

// ensureTables creates the stored system tables.
func (c *cluster) ensureTables() {
	ctx, cancel := context.WithTimeout(c.ctx, schemachange.Timeout)
	defer cancel()
	if err := c.n.changer.Ensure(ctx); err != nil && c.ctx.Err() == nil {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "cannot create the system tables", slog.String("error", err.Error()))
	}
}
