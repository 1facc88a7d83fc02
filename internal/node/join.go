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

// others are the addresses to join by. A list that is the same on all nodes may name this one, too.
func (n *Node) others() (out []string) {
	for _, address := range n.opts.Cluster.Join {
		if address != n.opts.Cluster.Internal && address != n.opts.Cluster.Advertise && address != n.internalAddr() {
			out = append(out, address)
		}
	}
	return out
}

func (n *Node) seeker() membership.Seeker {
	return membership.Seeker{
		Addresses: n.others(), Log: n.log,
		Ask: func(ctx context.Context, address string) (transport.ClusterID, error) {
			id, _, err := transport.Identify(ctx, transport.DialTCP, n.nodeTLS, n.secret, address)
			return id, err
		},
	}
}

// identity is the identity that a new store gets.
func (n *Node) identity(ctx context.Context) (id storage.Identity, err error) {
	if n.nodeID != nil {
		id.Node = *n.nodeID
	}
	if n.opts.Data != "" {
		if was, err := storage.ReadIdentity(vfs.Default, n.opts.Data); err != nil || was != nil {
			return id, err // it is somebody already
		}
	}
	switch c := &n.opts.Cluster; {
	case c.Internal != "" && !c.Bootstrap && len(c.Join) == 0:
		return id, membership.ErrNoCluster
	case len(c.Join) == 0:
		return id, nil
	}
	if err := n.checkJoinSecret(); err != nil {
		return id, err
	}
	if founds, err := n.decideFounding(ctx); err != nil || founds {
		return id, err
	}
	id.Level = n.levels.Oldest // the cluster's own follows with its records
	seeker := n.seeker()
	id.Cluster, err = seeker.Seek(ctx)
	return id, err
}

// decideFounding is for a node that is told to found a cluster and to join it, as are the others: the first of the list
// founds it, unless it is there. From then on the node goes one of the two ways.
func (n *Node) decideFounding(ctx context.Context) (founds bool, err error) {
	c := &n.opts.Cluster
	if !c.Bootstrap || len(c.Join) == 0 {
		return false, nil
	}
	if first := c.Join[0]; first == c.Advertise || first == n.internalAddr() {
		seeker := n.seeker()
		if founds, err = seeker.Unfounded(ctx); err != nil {
			return false, err
		}
	}
	if c.Bootstrap = founds; founds {
		c.Join = nil
	}
	return founds, nil
}

// checkMembership founds a cluster if that is to be done, and refuses what cannot be.
func (n *Node) checkMembership(ctx context.Context) error {
	if id := n.store.Identity().Node; n.nodeID != nil && *n.nodeID != id {
		return fmt.Errorf("the certificate in cluster.tls is for node %x, the data are those of node %x", *n.nodeID, id)
	}
	if known, err := membership.IsMember(n.store.Records); err != nil {
		return err
	} else if !known {
		if _, err := n.decideFounding(ctx); err != nil {
			return err
		}
	}
	c := &n.opts.Cluster
	found, err := membership.Check(n.store, membership.Wanted{Internal: c.Internal != "", Bootstrap: c.Bootstrap,
		Join: len(c.Join) > 0})
	if err != nil || !found {
		return err
	}
	self := n.record()
	self.Joined = time.Now().UTC().Truncate(time.Millisecond)
	return membership.Found(n.store, self)
}

// joining is the node's way into its cluster.
func (c *cluster) joining() *membership.Joining {
	n := c.n
	return &membership.Joining{
		Seeker: n.seeker(), Cluster: n.store.Identity().Cluster, Self: n.record, Network: c.transport,
		Records: n.records, Host: n.host,
	}
}

// join has the cluster take this node in, and waits until it has the cluster's records.
func (c *cluster) join(ctx context.Context) error {
	known, err := membership.IsMember(c.n.store.Records)
	if err != nil {
		return err
	}
	return c.joining().Run(ctx, known)
}

// ensureTables makes the stored tables that are part of every schema.
func (c *cluster) ensureTables() {
	ctx, cancel := context.WithTimeout(c.ctx, schemachange.Wait)
	defer cancel()
	if err := c.n.changer.Ensure(ctx); err != nil && c.ctx.Err() == nil {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "system tables not made", slog.String("error", err.Error()))
	}
}
