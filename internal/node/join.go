// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/x509"
	"encoding/binary"
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
	"github.com/ilion-db/ilion/internal/model/keys"
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

// member reports whether the store belongs to a node of a cluster: it has a replica of the meta partition.
func member(s *storage.Store) (bool, error) {
	replicas, err := s.Replicas()
	if err != nil {
		return false, err
	}
	for _, r := range replicas {
		if r.Partition == uint64(topology.MetaPartition) {
			return true, nil
		}
	}
	return false, nil
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

// found makes the store the first node of a cluster, with the data that are in it: it writes the record of the node, a meta partition whose
// only voter it is, and a note for each replica, in one batch. Until that is on disk the node stands alone; afterwards it never
// does again.
func (n *Node) found() error {
	scan, _ := meta.Alone(n.store)
	s, err := meta.Load(scan)
	if err != nil {
		return err
	}
	id := n.store.Identity()
	self := n.record(token.Min)
	if err := self.Check(); err != nil {
		return err
	}
	next := s.WithNode(self)
	next.ClusterVersion = n.format
	m, err := s.Map.AddMeta([]topology.Place{{Region: n.opts.DataCenter, Nodes: []topology.NodeID{id.Node}}})
	if err != nil {
		return err
	}
	if next.Map, err = adopt(m, n.opts.DataCenter, id.Node); err != nil {
		return err
	}
	records, err := s.Difference(next)
	if err != nil {
		return err
	}
	b := n.store.NewBatch()
	defer b.Close()
	for _, r := range records {
		if r.Value == nil {
			b.Delete(keys.MetaID, r.Key)
		} else {
			b.Set(keys.MetaID, r.Key, r.Value)
		}
	}
	b.Set(keys.MetaID, []byte(keys.RecordsVersion), binary.BigEndian.AppendUint64(nil, s.Version+1))
	for p := range next.Map.All() {
		r := p.Sets[0].On(id.Node)
		b.PutReplica(&keys.Replica{Partition: uint64(p.ID), Replica: uint64(r.ID), Created: time.Now().Unix()})
		if p.ID != topology.MetaPartition {
			continue
		}
		birth := keys.NewMeta(uint64(p.ID), keys.Span{Table: keys.MetaID})
		birth.Voters = []keys.Member{{Replica: uint64(r.ID), Node: id.Node}}
		b.PutMeta(&birth)
	}
	if err := b.Commit(); err != nil {
		return err
	}
	return n.store.Sync()
}

// adopt checks that every replica of a map is on the node.
func adopt(m *topology.Snapshot, region string, node topology.NodeID) (*topology.Snapshot, error) {
	for p := range m.All() {
		if len(p.Sets) != 1 || len(p.Sets[0].Replicas) != 1 || p.Sets[0].Replicas[0].Node != node {
			return nil, fmt.Errorf("partition %d is not on this node alone", p.ID)
		}
		if r := p.Sets[0].Region; r != region {
			return nil, fmt.Errorf("the data are in region %q: start the node with --region %s", r, r)
		}
	}
	return m, nil
}

// record is what the cluster is told of this node. Its token is given by whoever takes it in.
func (n *Node) record(at token.Token) *meta.Node {
	cql, web := n.clientAddrs()
	return &meta.Node{
		ID: n.store.Identity().Node, Internal: n.internalAddr(), CQL: cql, HTTP: web, Region: n.opts.DataCenter, Zone: n.opts.Rack,
		Tokens: []token.Token{at}, State: meta.Up, FormatMin: FormatOldest, FormatMax: n.format, Joined: time.Now().UTC().Truncate(time.Millisecond),
		Birth: n.store.Identity().Birth,
	}
}

// internalAddr is where other nodes reach this one, clientAddrs where clients do.
func (n *Node) internalAddr() string {
	if n.nodeListener == nil {
		return ""
	}
	return reachable(n.opts.Cluster.Advertise, n.nodeListener.Addr(), "")
}

func (n *Node) clientAddrs() (cql, web string) {
	host, _, _ := net.SplitHostPort(n.internalAddr()) // it was checked, or is the listener's own
	cql = reachable(n.opts.CQL, n.cqlListener.Addr(), host)
	if n.webListener != nil {
		web = reachable(n.opts.HTTP, n.webListener.Addr(), host)
	}
	return cql, web
}

// reachable is the address of a listener for others: with the port it really has, and with another host where it listens on all.
func reachable(configured string, l net.Addr, elsewhere string) string {
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return l.String()
	}
	_, real, err := net.SplitHostPort(l.String())
	if err == nil && port == "0" {
		port = real
	}
	if isUnspecified(host) && elsewhere != "" {
		host = elsewhere
	}
	return net.JoinHostPort(host, port)
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

func refuse(format string, args ...any) error {
	return &peers.Refusal{Text: fmt.Sprintf(format, args...)}
}

// Admit implements peers.Host: it takes a newcomer into the records, where everybody sees it.
func (c *cluster) Admit(ctx context.Context, who peers.Newcomer) (peers.Welcome, error) {
	if err := c.callBack(ctx, who); err != nil {
		return peers.Welcome{}, err
	}
	k := c.n.records
	s, err := k.Update(ctx, func(s *meta.State) (*meta.State, error) {
		known := s.Node(who.Node)
		switch {
		case known != nil && known.State == meta.Left:
			return nil, refuse("node %s has left the cluster: start it on an empty directory", short(who.Node))
		case known != nil && known.Birth != who.Birth:
			return nil, refuse("node %s is a member already, with another data directory: what it has promised there binds it. "+
				"Give the new directory an identity of its own (ilion cert node), and decommission %s if its disk is lost", short(who.Node), short(who.Node))
		case who.FormatMin > s.ClusterVersion || who.FormatMax < s.ClusterVersion:
			return nil, refuse("the cluster works in version %d, the node speaks %d to %d", s.ClusterVersion, who.FormatMin, who.FormatMax)
		case s.Map.Meta() == nil:
			return nil, errors.New("this node has no cluster")
		}
		node := &meta.Node{
			ID: who.Node, Internal: who.Internal, CQL: who.CQL, HTTP: who.HTTP, Region: who.Region, Zone: who.Zone, State: meta.Up,
			FormatMin: who.FormatMin, FormatMax: who.FormatMax, Joined: time.Now().UTC().Truncate(time.Millisecond), Birth: who.Birth,
		}
		if err := node.Check(); err != nil {
			return nil, &peers.Refusal{Text: err.Error()}
		}
		if known != nil {
			node.Tokens, node.Joined = known.Tokens, known.Joined
		} else {
			node.Tokens = []token.Token{placement.NextToken(s.Nodes)}
		}
		next := s.WithNode(node)
		set := &s.Map.Meta().Sets[0]
		if set.On(who.Node) != nil {
			return next, nil
		}
		m, _, err := s.Map.AddMember(topology.MetaPartition, set.Region, who.Node, topology.Learner)
		if err != nil {
			return nil, err
		}
		return next.WithMap(m), nil
	})
	if err != nil {
		return peers.Welcome{}, err
	}
	w := peers.Welcome{Replica: s.Map.Meta().Sets[0].On(who.Node).ID, Nodes: map[string]topology.NodeID{}}
	for _, node := range s.Nodes {
		if node.State != meta.Left {
			w.Nodes[node.Internal] = node.ID
		}
	}
	return w, nil
}

// callBackTimeout bounds the wait for a newcomer to answer at its address.
const callBackTimeout = 2 * time.Second

// callBack finds out whether a newcomer is where it says: a member that cannot be reached would be waited for.
func (c *cluster) callBack(ctx context.Context, who peers.Newcomer) error {
	ctx, cancel := context.WithTimeout(ctx, callBackTimeout)
	defer cancel()
	p, err := c.transport.Discover(ctx, who.Internal)
	switch {
	case err != nil:
		return fmt.Errorf("this node cannot reach the new one at %s (see cluster.advertise): %w", who.Internal, err)
	case p.Node != who.Node:
		return fmt.Errorf("node %s says that it is at %s, where node %s answers (see cluster.advertise)", short(who.Node), who.Internal, short(p.Node))
	}
	return nil
}

// present keeps the node's own record true: addresses may change over a restart, and a drain ends with one.
func (c *cluster) present() {
	for {
		ctx, cancel := context.WithTimeout(c.ctx, changeWait)
		_, err := c.n.records.Update(ctx, func(s *meta.State) (*meta.State, error) {
			was := s.Node(c.self)
			if was == nil || was.State == meta.Left || was.State == meta.Leaving {
				return s, nil
			}
			is := c.n.record(token.Min)
			is.Tokens, is.Joined = was.Tokens, was.Joined
			if string(is.Append(nil)) == string(was.Append(nil)) {
				return s, nil
			}
			return s.WithNode(is), nil
		})
		cancel()
		if err == nil {
			break
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(joinPause):
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, changeWait)
	defer cancel()
	if err := c.n.keeper.ensure(ctx); err != nil && c.ctx.Err() == nil {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "system tables not made", slog.String("error", err.Error()))
	}
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

var errNoCluster = errors.New("the node belongs to no cluster yet: give --bootstrap to found one, or --join HOST:PORT to join one")

// checkMembership founds a cluster if that is to be done, and refuses what cannot be: a member does not stand alone again, and a node that
// stands alone has to say how it comes into a cluster.
func (n *Node) checkMembership() error {
	known, err := member(n.store)
	if err != nil {
		return err
	}
	if id := n.store.Identity().Node; n.nodeID != nil && *n.nodeID != id {
		return fmt.Errorf("the certificate in cluster.tls is for node %x, the data are those of node %x", *n.nodeID, id)
	}
	c := &n.opts.Cluster
	switch {
	case known && c.Internal == "":
		return errors.New("the data belong to a node of a cluster: give --internal HOST:PORT")
	case known || c.Internal == "":
		return nil
	}
	// A crash while the replica of the meta partition was being exchanged leaves the others behind (see comeBack).
	left, err := n.store.Replicas()
	switch {
	case err != nil:
		return err
	case len(left) > 0 && len(c.Join) == 0:
		return errors.New("the node is a member of a cluster whose records it has lost: give --join HOST:PORT to get them again")
	case len(left) > 0:
		return nil
	case c.Bootstrap:
		return n.found()
	case len(c.Join) == 0:
		return errNoCluster
	}
	scan, _ := meta.Alone(n.store)
	s, err := meta.Load(scan)
	if err != nil {
		return err
	}
	if s.Version > 0 || s.Map.Len() > 0 {
		return errors.New("the directory has data of a node that stood alone: only --bootstrap takes them into a cluster; to join another one, start on an empty directory")
	}
	return nil
}
