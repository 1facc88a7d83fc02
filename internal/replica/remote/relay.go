// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"io"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// A request whose way to its node is cut goes round by another one, in one hop: to that it is a relay (the node that is
// meant, and the request), which sends it on as relayed (the node that asks, and the request). The answer comes back as
// it is. It counts against the bounds of both connections, and ends at the deadline that travels with it.

// Via names the same replica, asked by way of another node.
func (r *Replica) Via(node topology.NodeID) *Replica {
	return &Replica{c: r.c, node: r.node, id: r.id, via: node}
}

// next is the node that requests are sent to.
func (r *Replica) next() topology.NodeID {
	if r.via != (topology.NodeID{}) {
		return r.via
	}
	return r.node
}

// appendWay begins a request that goes round.
func (r *Replica) appendWay(dst []byte) []byte {
	if r.via == (topology.NodeID{}) {
		return dst
	}
	return append(appendHead(dst, kindRelay, r.id, nil), r.node[:]...)
}

// relay sends a request on and its answer back.
func (s *Server) relay(ctx context.Context, from topology.NodeID, r *reader, id topology.PartitionID, to Responder) {
	node := r.node()
	if r.Err() != nil || s.carrier == nil {
		to.Fail(ErrMalformed)
		return
	}
	request := s.buffers.get()
	*request = append(append(appendHead(*request, kindRelayed, id, nil), from[:]...), r.Rest()...)
	answer, err := s.carrier.Stream(ctx, node, *request)
	s.buffers.put(request)
	var page []byte // the last one before this
	for err == nil {
		var b []byte
		if b, err = answer.Next(); err == nil {
			if page != nil {
				err = to.Page(page)
			}
			page = append(page[:0], b...)
		}
	}
	if answer != nil {
		answer.Close()
	}
	if errors.Is(err, io.EOF) && page != nil {
		_ = to.End(page)
		return
	}
	s.failRelay(to, id, err)
}

// relays reports whether a request of the kind is passed on, or was.
func relays(kind byte) bool { return kind == kindRelay || kind == kindRelayed }

// failRelay says what became of a request that was sent on. A node that could not be reached from here, either, did
// nothing, and is as good as one that does not lead.
func (s *Server) failRelay(to Responder, id topology.PartitionID, err error) {
	if e, ok := errors.AsType[*transport.RemoteError](err); ok {
		to.Fail(e)
		return
	}
	told := error(partition.ErrUncertain)
	if errors.Is(err, transport.ErrUnreachable) || errors.Is(err, transport.ErrBusy) {
		told = &partition.NotLeader{Partition: id}
	}
	s.fail(to, nil, told)
}
