// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

const (
	// askTimeout bounds one attempt to reach a node of the cluster that is to be joined, joinPause is the pause between attempts.
	askTimeout = 5 * time.Second
	joinPause  = 500 * time.Millisecond
	// joinAttempts is how often a cluster is asked that answers with errors, twinAttempts how often one that knows the node from another process.
	joinAttempts = 20
	twinAttempts = 10
)

// errOnlySelf is the end of a node that is told to join itself.
var errOnlySelf = errors.New("--join names this node itself: give the internal address of another node, or --bootstrap to found a cluster")

// others are the addresses to join by. A list that is the same on all nodes may name this one, too.
func (n *Node) others() (out []string) {
	for _, address := range n.opts.Cluster.Join {
		if address != n.opts.Cluster.Internal && address != n.opts.Cluster.Advertise && address != n.internalAddr() {
			out = append(out, address)
		}
	}
	return out
}

// hopeless reports whether a failure to join will not pass by itself: somebody answered, and it was the wrong one, or did not want this node.
func hopeless(err error) bool {
	var refused *transport.Refused
	switch {
	case errors.Is(err, transport.ErrTwin), errors.Is(err, transport.ErrBusy):
		return false // a process that has just ended may be taken for a living one
	case errors.As(err, &refused), errors.Is(err, transport.ErrHandshake), errors.Is(err, errOnlySelf):
		return true
	}
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &invalid) || alerted(err)
}

// alerted reports whether the other side has ended the TLS handshake.
func alerted(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "remote error"
}

// explain adds to a failure to join what it is likely to come from.
func explain(err error) error {
	var refused *transport.Refused
	switch {
	case errors.Is(err, transport.ErrCluster) && errors.As(err, &refused) && refused.ByPeer:
		return fmt.Errorf("%w: the data directory belongs to another cluster; start on an empty one", err)
	case errors.Is(err, transport.ErrHandshake) && !errors.As(err, &refused):
		return fmt.Errorf("%w: this is not the internal address of a node, or it uses TLS and this node does not", err)
	case alerted(err):
		return fmt.Errorf("%w: the other node does not accept the certificate in cluster.tls", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: it hung up; perhaps it uses TLS and this node does not (cluster.tls), or its log says why", err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: nothing that answers as a node does", err)
	}
	return err
}

// askCluster learns the id of the cluster that is to be joined from the first node that answers.
func (n *Node) askCluster(ctx context.Context) (transport.ClusterID, error) {
	others := n.others()
	if len(others) == 0 {
		return transport.ClusterID{}, errOnlySelf
	}
	for said := new(quiet); ; {
		var errs []error
		for _, address := range others {
			ask, cancel := context.WithTimeout(ctx, askTimeout)
			id, _, err := transport.Ask(ask, transport.DialTCP, n.nodeTLS, address)
			cancel()
			if err == nil {
				return id, nil
			}
			errs = append(errs, explain(err))
		}
		err := errors.Join(errs...)
		if hopeless(err) {
			return transport.ClusterID{}, fmt.Errorf("no node of the cluster answers: %s", oneLine(err))
		}
		if said.allow("") {
			n.log.LogAttrs(ctx, slog.LevelWarn, "waiting for a node of the cluster to answer", slog.Any("join", others), slog.String("error", oneLine(err)))
		}
		select {
		case <-ctx.Done():
			return transport.ClusterID{}, ctx.Err()
		case <-time.After(joinPause):
		}
	}
}

// join has the cluster take this node in, and waits until it has the cluster's records.
func (c *cluster) join(ctx context.Context) error {
	n := c.n
	known, err := member(n.store)
	if err != nil {
		return err
	}
	for attempt, said := 0, new(quiet); !known; attempt++ {
		err := c.introduce(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		remote, refusal := (*transport.RemoteError)(nil), (*peers.Refusal)(nil)
		if errors.As(err, &refusal) || errors.As(err, &remote) && attempt > joinAttempts || hopeless(err) || errors.Is(err, transport.ErrTwin) && attempt > twinAttempts {
			return fmt.Errorf("the cluster does not take the node in: %s", oneLine(err))
		}
		if said.allow("") {
			n.log.LogAttrs(ctx, slog.LevelWarn, "waiting to be taken in by the cluster", slog.String("error", oneLine(err)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(joinPause):
		}
	}
	if known && n.records.State().Version > 0 {
		if self := n.records.State().Node(c.self); self != nil && self.Region != n.opts.DataCenter {
			return fmt.Errorf("the node is in region %q, where its replicas are: start it with --region %s; "+
				"a node of another region is a new one, on an empty directory", self.Region, self.Region)
		}
		return c.checkAlone(ctx)
	}
	return c.awaitRecords(ctx, known)
}

// awaitRecords waits until the cluster's records are here, which the leader of the meta partition sends. A node that was taken in and stopped before they
// came knows nobody else when it starts again.
func (c *cluster) awaitRecords(ctx context.Context, again bool) error {
	for c.n.records.State().Version == 0 {
		for _, address := range c.n.others() {
			if !again {
				break
			}
			ask, cancel := context.WithTimeout(ctx, askTimeout)
			_, _ = c.transport.Discover(ask, address) // whom nobody finds may still find this node
			cancel()
		}
		wait, cancel := context.WithTimeout(ctx, quietTime)
		_, err := c.n.records.Wait(wait, 1)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.n.log.LogAttrs(ctx, slog.LevelWarn, "waiting for the records of the cluster, which the other nodes send here", slog.String("address", c.n.internalAddr()))
		}
	}
	return nil
}

// checkAlone refuses to go on as a cluster of one node when another cluster was to be joined: both were founded with --bootstrap.
func (c *cluster) checkAlone(ctx context.Context) error {
	if len(c.n.records.State().Nodes) != 1 {
		return nil
	}
	for _, address := range c.n.others() {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		id, _, err := transport.Ask(ask, transport.DialTCP, c.n.nodeTLS, address)
		cancel()
		if err == nil && id != c.n.store.Identity().Cluster {
			return fmt.Errorf("the data directory is a cluster of its own, founded with --bootstrap, and %s is a node of another one: "+
				"start on an empty directory to join that, or without --join to go on with this", address)
		}
	}
	return nil
}

// greet looks for other nodes at the addresses that were given to join by, for the case that all nodes are elsewhere since they stopped.
func (c *cluster) greet() {
	for _, address := range c.n.others() {
		for range joinAttempts {
			ctx, cancel := context.WithTimeout(c.ctx, askTimeout)
			_, err := c.transport.Discover(ctx, address)
			cancel()
			if err == nil || hopeless(err) {
				break
			}
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(joinPause):
			}
		}
	}
}

// introduce asks one node of the cluster after the other to take this one in.
func (c *cluster) introduce(ctx context.Context) error {
	me := c.n.record(token.Min)
	others := c.n.others()
	if len(others) == 0 {
		return errOnlySelf
	}
	var errs []error
	for _, address := range others {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		p, err := c.transport.Discover(ask, address)
		var w peers.Welcome
		if err == nil {
			w, err = peers.Join(ask, c.transport, p.Node, peers.Newcomer{
				Node: me.ID, Birth: me.Birth, Internal: me.Internal, CQL: me.CQL, HTTP: me.HTTP, Region: me.Region, Zone: me.Zone, FormatMin: me.FormatMin, FormatMax: me.FormatMax,
			})
		}
		cancel()
		if err != nil {
			errs = append(errs, explain(err))
			continue
		}
		for at, node := range w.Nodes {
			if node != c.self {
				c.transport.SetAddress(node, at)
			}
		}
		return c.n.host.Join(topology.MetaPartition, w.Replica)
	}
	return errors.Join(errs...)
}

// effectiveReplication is how many replicas every table has or will have.
func effectiveReplication(s *meta.State) int {
	nodes := 0
	for _, n := range s.Nodes {
		if n.State == meta.Up || n.State == meta.Draining {
			nodes++
		}
	}
	switch {
	case nodes >= placement.Replicas:
		return placement.Replicas
	case nodes >= 3:
		return 3
	}
	return 1
}

// oneLine makes one line of joined errors.
func oneLine(err error) string {
	var out []byte
	for _, b := range []byte(err.Error()) {
		if b == '\n' {
			out = append(out, "; "...)
		} else {
			out = append(out, b)
		}
	}
	return string(out)
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
		return id, errNoCluster
	case len(c.Join) == 0:
		return id, nil
	}
	cluster, err := n.askCluster(ctx)
	id.Cluster = cluster
	return id, err
}
