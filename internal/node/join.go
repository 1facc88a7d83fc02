// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// joinAddresses returns the addresses in --join without this node's own, because all nodes may use the same list.
func (n *Node) joinAddresses() (out []string) {
	for _, address := range n.opts.Cluster.Join {
		if address != n.opts.Cluster.Internal && address != n.opts.Cluster.Advertise && address != n.InternalAddr() {
			out = append(out, address)
		}
	}
	return out
}

func (n *Node) seeker() membership.ClusterFinder {
	nodeTLS, _ := n.certificates.Nodes()
	return membership.ClusterFinder{
		Addresses: n.joinAddresses(), Log: n.log,
		QueryCluster: func(ctx context.Context, address string) (transport.ClusterID, error) {
			id, _, err := transport.Identify(ctx, transport.DialTCP, nodeTLS, n.joinSecret.Value(), address)
			return id, err
		},
	}
}

// identity returns the identity of a new store.
func (n *Node) identity(ctx context.Context) (id storage.Identity, err error) {
	if _, named := n.certificates.Nodes(); named != nil {
		id.Node = *named
	}
	if n.opts.Data != "" {
		if was, err := storage.ReadIdentity(vfs.Default, n.opts.Data); err != nil || was != nil {
			return id, err // the directory already has an identity
		}
	}
	switch c := &n.opts.Cluster; {
	case c.Internal != "" && !c.Bootstrap && len(c.Join) == 0:
		return id, membership.ErrNoCluster
	case len(c.Join) == 0:
		return id, nil
	}
	if err := n.joinSecret.Check(); err != nil {
		return id, err
	}
	if founds, err := n.decideBootstrap(ctx); err != nil || founds {
		return id, err
	}
	id.Level = n.levels.Oldest // the cluster's level follows with its metadata
	seeker := n.seeker()
	id.Cluster, err = seeker.FindCluster(ctx)
	return id, err
}

// decideBootstrap decides whether a node with --bootstrap and --join creates the cluster. The first node of the list
// does, unless the cluster exists. All other nodes, and later starts, join.
func (n *Node) decideBootstrap(ctx context.Context) (founds bool, err error) {
	c := &n.opts.Cluster
	if !c.Bootstrap || len(c.Join) == 0 {
		return false, nil
	}
	if first := c.Join[0]; first == c.Advertise || first == n.InternalAddr() {
		seeker := n.seeker()
		if founds, err = seeker.NoClusterFound(ctx); err != nil {
			return false, err
		}
	}
	if c.Bootstrap = founds; founds {
		c.Join = nil
	}
	return founds, nil
}

// checkMembership creates a cluster if required, and rejects invalid starts.
func (n *Node) checkMembership(ctx context.Context) error {
	if _, named := n.certificates.Nodes(); named != nil && *named != n.store.Identity().Node {
		return fmt.Errorf("the certificate in cluster.tls is for node %x, but the data belongs to node %x", *named,
			n.store.Identity().Node)
	}
	if known, err := membership.IsMember(n.store.Records); err != nil {
		return err
	} else if !known {
		if _, err := n.decideBootstrap(ctx); err != nil {
			return err
		}
	}
	c := &n.opts.Cluster
	found, err := membership.CheckStart(n.store, membership.StartOptions{Internal: c.Internal != "",
		Bootstrap: c.Bootstrap,
		Join:      len(c.Join) > 0})
	if err != nil || !found {
		return err
	}
	self := n.nodeRecord()
	self.Joined = time.Now().UTC().Truncate(time.Millisecond)
	return membership.Bootstrap(n.store, self)
}

// joining returns the node's Joiner.
func (c *cluster) joining() *membership.Joiner {
	n := c.n
	return &membership.Joiner{
		ClusterFinder: n.seeker(), Cluster: n.store.Identity().Cluster, Self: n.nodeRecord, Network: c.transport,
		Metadata: n.metadata, Host: n.host,
	}
}

// join joins the cluster and waits for its metadata.
func (c *cluster) join(ctx context.Context) error {
	known, err := membership.IsMember(c.n.store.Records)
	if err != nil {
		return err
	}
	return c.joining().Run(ctx, known)
}

// ensureTables creates the stored system tables.
func (c *cluster) ensureTables() {
	ctx, cancel := context.WithTimeout(c.ctx, schemachange.Timeout)
	defer cancel()
	if err := c.n.changer.Ensure(ctx); err != nil && c.ctx.Err() == nil {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "cannot create the system tables", slog.String("error", err.Error()))
	}
}
