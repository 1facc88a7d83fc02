// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// regionNodes are nodes whose servers reach each other. Node 1 is in another region and has no replicas.
type regionNodes struct {
	t       testing.TB
	servers map[topology.NodeID]*Server
	fakes   map[topology.NodeID]*candidate
	down    map[topology.NodeID]bool
	hops    []string
}

// candidate is a fake replica that knows the leader.
type candidate struct {
	*fake
	self, leader topology.NodeID
}

func (c *candidate) Leader() (topology.NodeID, bool) { return c.leader, c.leader != topology.NodeID{} }
func (c *candidate) Leading() bool                   { return c.leader == c.self }

// from implements Transport for a node. A call returns when its response is complete.
type from struct {
	w    *regionNodes
	node topology.NodeID
}

// pages is a response. It implements transport.Responder and transport.Stream.
type pages struct {
	list  [][]byte
	err   error
	ended chan struct{}
}

func (p *pages) Page(b []byte) error { p.list = append(p.list, bytes.Clone(b)); return nil }
func (p *pages) End(b []byte) error {
	p.list = append(p.list, bytes.Clone(b))
	close(p.ended)
	return nil
}
func (p *pages) Fail(err error) { p.err = &transport.RemoteError{Text: err.Error()}; close(p.ended) }
func (p *pages) Close()         {}

func (p *pages) Next() ([]byte, error) {
	switch {
	case len(p.list) > 0:
		b := p.list[0]
		p.list = p.list[1:]
		return b, nil
	case p.err != nil:
		return nil, p.err
	}
	return nil, io.EOF
}

func (f from) Stream(ctx context.Context, to topology.NodeID, request []byte) (transport.Stream, error) {
	f.w.hops = append(f.w.hops, fmt.Sprintf("%d-%d", f.node[0], to[0]))
	if f.w.down[to] {
		return nil, transport.ErrUnreachable
	}
	p := &pages{ended: make(chan struct{})}
	f.w.servers[to].Serve(ctx, f.node, bytes.Clone(request), p)
	<-p.ended
	return p, nil
}

func (f from) Call(ctx context.Context, to topology.NodeID, request []byte) ([]byte, error) {
	s, err := f.Stream(ctx, to, request)
	if err != nil {
		return nil, err
	}
	return s.Next()
}

func (f from) Begin(_ *transport.Pending, to topology.NodeID, _ time.Time, request []byte,
	answer transport.ResponseHandler) error {
	request = bytes.Clone(request)
	go func() { answer.HandleResponse(f.Call(context.Background(), to, request)) }()
	return nil
}

// newRegionNodes returns nodes 2 and 3, which have replicas. Node 3 leads. The returned replica is the replica on node
// 2, as node 1 uses it.
func newRegionNodes(t testing.TB) (*regionNodes, *Replica) {
	w := &regionNodes{t: t, servers: map[topology.NodeID]*Server{}, fakes: map[topology.NodeID]*candidate{},
		down: map[topology.NodeID]bool{}}
	for _, id := range []topology.NodeID{node(2), node(3)} {
		c := &candidate{&fake{index: uint64(id[0])}, id, node(3)}
		s := newServer(oneTarget{c})
		s.transport = from{w, id}
		w.servers[id], w.fakes[id] = s, c
	}
	epochs := func(dst []Epoch, id topology.PartitionID) []Epoch {
		if id != 5 {
			t.Errorf("the epochs of partition %d are requested", id)
		}
		return append(dst, Epoch{node(2), 22}, Epoch{node(3), 33})
	}
	return w, New(from{w, node(1)}, nil).Replica(node(2), 5).Forwarding(epochs)
}

// first returns the mutation as a first attempt, with the epoch of node 2.
func first() *command.Mutation {
	m := mutation()
	m.Retried, m.Sent, m.Known = false, true, 22
	return m
}

// TestForward checks that a node of the home region forwards a request to the leader, with the dedupe epoch of the
// leader, and executes it itself if it leads or if no leader is known.
func TestForward(t *testing.T) {
	for name, c := range map[string]struct {
		leader topology.NodeID // leader that is known to node 2
		index  uint64
		known  uint64
		hops   string
	}{
		"another node leads": {node(3), 3, 33, "1-2 2-3"},
		"it leads":           {node(2), 2, 22, "1-2"},
		"no leader is known": {topology.NodeID{}, 2, 22, "1-2"},
		"the sender leads":   {node(1), 2, 22, "1-2"},
	} {
		w, r := newRegionNodes(t)
		w.fakes[node(2)].leader = c.leader
		d := newAwaited()
		if err := r.Write(t.Context(), first(), d); err != nil {
			t.Fatal(err)
		}
		d.wait()
		if d.err != nil || d.index != c.index || strings.Join(w.hops, " ") != c.hops {
			t.Errorf("%s: %v, index %d, %v", name, d.err, d.index, w.hops)
		}
		var m command.Mutation
		if err := command.DecodeMutation(&m, w.fakes[node(int(c.index))].got[0].([]byte)); err != nil ||
			m.Known != c.known || !m.Sent || string(m.Key) != "k" {
			t.Errorf("%s: %v, %+v", name, err, m)
		}
	}
}

// TestForwardedKinds checks that every kind of request reaches the leader, including reads in several pages.
func TestForwardedKinds(t *testing.T) {
	for name, send := range requests {
		w, r := newRegionNodes(t)
		_, err := send(t.Context(), r)
		forwarded := slices.Contains(w.hops, "2-3")
		e, retried := errors.AsType[*partition.NotLeader](err)
		if !forwarded || len(w.fakes[node(2)].got) > 0 ||
			err != nil && (!retried || e.Leader != node(3)) || len(w.fakes[node(3)].got) != 1 && !retried {
			t.Errorf("%s: %v, %v", name, w.hops, err)
		}
	}
	w, r := newRegionNodes(t)
	w.servers[node(3)].page = 100
	w.fakes[node(3)].rows = func(v command.Visitor) error {
		for i := range 50 {
			if _, err := v.Partition(token.Token(i), fmt.Append(nil, "key", i), &row.Row{Live: true}); err != nil {
				return err
			}
		}
		return nil
	}
	s := &scribe{step: func(int) (command.Step, error) { return command.More, nil }}
	if err := r.Read(t.Context(), &command.Read{Table: 7}, s); err != nil || len(s.items) != 50 {
		t.Errorf("%d of 50 rows, %v", len(s.items), err)
	}
}

// TestForwardedEpochs checks that the leader requires a direct request if the sender needs the leader's epoch. This
// applies to a write whose earlier attempt may have been applied and to a write that the leader may have forgotten. The
// error of another node that does not lead must arrive unchanged.
func TestForwardedEpochs(t *testing.T) {
	retried := first()
	retried.Retried, retried.Sent = true, false
	moved := &partition.NotLeader{Partition: 5, Leader: node(4)}
	for name, c := range map[string]struct {
		m        *command.Mutation
		err      error
		async    bool
		leader   topology.NodeID
		executed bool
	}{
		"retried":   {m: retried, leader: node(3)},
		"forgotten": {m: first(), err: &partition.DedupeUnknown{Epoch: 99}, leader: node(3), executed: true},
		"forgotten, async": {m: first(), err: &partition.DedupeUnknown{Epoch: 99}, async: true, leader: node(3),
			executed: true},
		"leads no more":     {m: first(), err: moved, leader: node(4), executed: true},
		"leads no more now": {m: first(), err: moved, async: true, leader: node(4), executed: true},
	} {
		w, r := newRegionNodes(t)
		w.fakes[node(3)].err, w.fakes[node(3)].async = c.err, c.async
		d := newAwaited()
		if err := r.Write(t.Context(), c.m, d); err != nil {
			t.Fatal(err)
		}
		d.wait()
		e, ok := errors.AsType[*partition.NotLeader](d.err)
		if !ok || e.Leader != c.leader || (len(w.fakes[node(3)].got) == 1) != c.executed {
			t.Errorf("%s: %v", name, d.err)
		}
		// The sender then sends the request to the leader, which returns its epoch.
		if _, ok := c.err.(*partition.DedupeUnknown); ok {
			d := newAwaited()
			w.fakes[node(3)].leader = node(3)
			direct := &Replica{c: r.c, node: node(3), id: 5, epochs: r.epochs}
			if err := direct.Write(t.Context(), first(), d); err != nil {
				t.Fatal(err)
			}
			if e, ok := errors.AsType[*partition.DedupeUnknown](d.wait().err); !ok || e.Epoch != 99 {
				t.Errorf("%s: sent to the leader: %v", name, d.err)
			}
		}
	}
}

// TestForwardFails checks that a request has no effect if the leader cannot be reached, and that a request is forwarded
// only once.
func TestForwardFails(t *testing.T) {
	w, r := newRegionNodes(t)
	w.down[node(3)] = true
	d := newAwaited()
	if err := r.Write(t.Context(), first(), d); err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*partition.NotLeader](d.wait().err); !ok || e.Leader != (topology.NodeID{}) {
		t.Errorf("the leader is down: %v", d.err)
	}
	for _, kind := range []byte{kindRelay, kindRelayed, kindForward, kindForwarded} {
		inner := append(appendHead(nil, kind, 5, nil), make([]byte, 80)...)
		request := append(appendHead(nil, kindForward, 5, nil), 0)
		p := &pages{ended: make(chan struct{})}
		w.servers[node(2)].Serve(t.Context(), node(1), append(request, inner...), p)
		if <-p.ended; p.err == nil || !strings.Contains(p.err.Error(), ErrMalformed.Error()) {
			t.Errorf("kind %d in a forwarded request: %v", kind, p.err)
		}
	}
}
