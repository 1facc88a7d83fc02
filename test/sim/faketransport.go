// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// fakeTransport replaces package transport for package remote. It sends requests and responses in the frames of that
// package over the simulated network, during one run of a node's process.
//
// Like a connection, fakeTransport loses messages in flight when the remote process ends. It reports the loss unless
// the network between the two nodes is partitioned. Messages that have arrived stay in the buffers of a paused process
// indefinitely.
type fakeTransport struct {
	n     *node
	life  int
	p     simenv.Process
	s     *sched.Scheduler
	links map[topology.NodeID]*link
}

func (n *node) newFakeTransport() *fakeTransport {
	return &fakeTransport{n: n, life: n.Life, p: n.Process(), s: n.Scheduler(), links: map[topology.NodeID]*link{}}
}

// close closes all connections of the process.
func (c *fakeTransport) close() {
	for _, to := range slices.SortedFunc(maps.Keys(c.links), func(a, b topology.NodeID) int {
		return bytes.Compare(a[:], b[:])
	}) {
		c.links[to].broken(false)
	}
}

// pagesAhead is the maximum number of pages in flight.
const pagesAhead = 2

// Call implements remote.Transport.
func (c *fakeTransport) Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error) {
	e, err := c.open(ctx, to, request, 0)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	return e.Next()
}

func (c *fakeTransport) Stream(ctx context.Context, to topology.NodeID, request []byte) (transport.Stream, error) {
	e, err := c.open(ctx, to, request, pagesAhead)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (c *fakeTransport) open(ctx context.Context, to topology.NodeID, request []byte, ahead int) (*exchange, error) {
	e := &exchange{c: c, to: to, parent: ctx, ahead: ahead}
	if b, ok := ctx.(transport.Bounded); ok {
		e.parent, e.until, e.first = b.Bounds()
	} else {
		e.until, _ = ctx.Deadline()
	}
	if err := e.parent.Err(); err != nil {
		return nil, err
	}
	if err := e.start(request); err != nil {
		return nil, err
	}
	return e, nil
}

func (c *fakeTransport) Begin(_ *transport.Pending, to topology.NodeID, until time.Time, request []byte,
	answer transport.ResponseHandler) error {
	e := &exchange{c: c, to: to, parent: context.Background(), until: until, answer: answer}
	if err := e.start(request); err != nil {
		return err
	}
	if !until.IsZero() {
		c.n.AfterClock(c.s.Until(until), func() { e.finish(context.DeadlineExceeded) })
	}
	return nil
}

// Discover implements membership.Network. Discover returns the node at an address.
func (c *fakeTransport) Discover(ctx context.Context, address string) (transport.Peer, error) {
	n, w := c.n, c.n.w
	for _, to := range w.nodes {
		if to.name() != address {
			continue
		}
		if err := c.p.Wait(ctx, nil, w.Net.Delay(n.ID, to.ID)+w.Net.Delay(to.ID, n.ID)); !errors.Is(err,
			context.DeadlineExceeded) ||
			ctx.Err() != nil {
			return transport.Peer{}, err
		}
		if to.Up && !w.Net.Parted(n.ID, to.ID) && n.connected(to) {
			return transport.Peer{Node: to.self()}, nil
		}
	}
	return transport.Peer{}, transport.ErrUnreachable
}

// SetAddress implements membership.Network. Simulated addresses never change.
func (c *fakeTransport) SetAddress(topology.NodeID, string) {}

// Forget implements membership.Network. A removed node does not respond, so there is nothing to do.
func (c *fakeTransport) Forget(topology.NodeID) {}
