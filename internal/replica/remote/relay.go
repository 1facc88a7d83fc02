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

// If a node cannot be reached directly, one other node can relay a request. The sender sends the request and the
// destination node to the relaying node as kindRelay. The relaying node sends the request and the originating node to
// the destination as kindRelayed, and returns the response unchanged. A relayed request counts toward the limits of
// both connections.

// Via returns the same replica, with another node that relays all requests.
func (r *Replica) Via(node topology.NodeID) *Replica {
	return &Replica{c: r.c, node: r.node, id: r.id, via: node}
}

// firstHop returns the node to which requests are sent.
func (r *Replica) firstHop() topology.NodeID {
	if r.via != (topology.NodeID{}) {
		return r.via
	}
	return r.node
}

// appendRelayHead starts a relayed request, or a request that may be forwarded.
func (r *Replica) appendRelayHead(dst []byte) []byte {
	if r.via == (topology.NodeID{}) {
		if r.epochs != nil {
			return r.appendForwardHead(dst)
		}
		return dst
	}
	return append(appendHead(dst, kindRelay, r.id, nil), r.node[:]...)
}

// relay forwards a request and returns its response.
func (s *Server) relay(ctx context.Context, from topology.NodeID, r *reader, id topology.PartitionID,
	to transport.Responder) {
	node := r.node()
	if r.Err() != nil || s.transport == nil {
		to.Fail(ErrMalformed)
		return
	}
	request := s.buffers.get()
	*request = append(append(appendHead(*request, kindRelayed, id, nil), from[:]...), r.Rest()...)
	s.pass(ctx, node, *request, id, to)
	s.buffers.put(request)
}

// pass sends a request to a node and returns the response unchanged.
func (s *Server) pass(ctx context.Context, node topology.NodeID, request []byte, id topology.PartitionID,
	to transport.Responder) {
	answer, err := s.transport.Stream(ctx, node, request)
	var page []byte // the previous page
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

// relays reports whether requests of a kind contain another request.
func relays(kind byte) bool {
	switch kind {
	case kindRelay, kindRelayed, kindForward, kindForwarded:
		return true
	}
	return false
}

// failRelay returns the error of a relayed or forwarded request. If this node cannot reach the other node either, the
// request had no effect, and failRelay returns the same error as a replica that does not lead.
func (s *Server) failRelay(to transport.Responder, id topology.PartitionID, err error) {
	if _, ok := errors.AsType[*transport.RemoteError](err); ok || errors.Is(err, transport.ErrUnknownCall) {
		to.Fail(err)
		return
	}
	told := error(partition.ErrUncertain)
	if errors.Is(err, transport.ErrUnreachable) || errors.Is(err, transport.ErrBusy) {
		told = &partition.NotLeader{Partition: id}
	}
	s.fail(to, nil, told)
}
