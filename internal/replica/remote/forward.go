// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// A node outside the region of a partition may not know which replica leads. It therefore sends a request as
// kindForward. The receiving node executes the request if its replica leads, or forwards the request to the leader as
// kindForwarded. A wrong guess then costs a round trip within the region of the replica instead of a round trip between
// regions.
//
// The dedupe fields of a write apply to one node (see command.Mutation). kindForward therefore contains the dedupe
// epochs of all nodes that may lead, and the leader uses its own epoch. If this epoch does not prove that the write has
// not been applied, the leader returns NotLeader with its own ID, and the sender then sends the request to the leader.
// The same applies if an earlier attempt of the write may have been applied.

// Epoch is the newest dedupe epoch that a node has reported. See partition.Host.DedupeEpoch.
type Epoch struct {
	Node  topology.NodeID
	Value uint64
}

// Epochs appends the dedupe epochs of the nodes that may lead a partition.
type Epochs func(dst []Epoch, id topology.PartitionID) []Epoch

// Forwarding returns the same replica with forwarding enabled. The node of the replica forwards requests to the leader
// if the replica does not lead. epochs is called for every request.
func (r *Replica) Forwarding(epochs Epochs) *Replica {
	return &Replica{c: r.c, node: r.node, id: r.id, epochs: epochs}
}

// epochsMax is the maximum number of epochs in a request.
const epochsMax = 16

// appendForwardHead starts a request that may be forwarded.
func (r *Replica) appendForwardHead(dst []byte) []byte {
	var space [epochsMax]Epoch
	list := r.epochs(space[:0], r.id)
	list = list[:min(len(list), epochsMax)]
	dst = appendInt(appendHead(dst, kindForward, r.id, nil), len(list))
	for _, e := range list {
		dst = binary.AppendUvarint(append(dst, e.Node[:]...), e.Value)
	}
	return dst
}

// leader is a Target that knows the leader of its partition.
type leader interface {
	Leader() (topology.NodeID, bool)
	Leading() bool
}

// forward executes a request or forwards it to the leader, and returns the response.
func (s *Server) forward(ctx context.Context, from topology.NodeID, r *reader, id topology.PartitionID,
	to transport.Responder) {
	target, _ := s.targets.target(id).(leader)
	var node topology.NodeID
	known := false
	if target != nil && s.transport != nil && !target.Leading() {
		node, known = target.Leader()
	}
	epoch := uint64(0)
	n := r.Count(len(node) + 1)
	for range min(n, epochsMax) {
		if at, value := r.node(), r.Uint(); at == node {
			epoch = value
		}
	}
	request := r.Rest()
	switch {
	case r.Err() != nil || n > epochsMax || len(request) == 0 || relays(request[0]):
		to.Fail(ErrMalformed)
	case !known || node == from:
		s.Serve(ctx, from, request, to)
	default:
		b := s.buffers.get()
		*b = append(append(appendHead(*b, kindForwarded, id, nil), from[:]...), node[:]...)
		*b = append(binary.AppendUvarint(*b, epoch), request...)
		s.pass(ctx, node, *b, id, to)
		s.buffers.put(b)
	}
}

// forwarded describes the origin of a request. The zero value means that the request was sent directly.
type forwarded struct {
	// self is this node, and epoch is its dedupe epoch in the request.
	self  topology.NodeID
	epoch uint64
}

// serveForwarded executes a request that another node has forwarded.
func (s *Server) serveForwarded(ctx context.Context, r *reader, to transport.Responder) {
	from, f := r.node(), forwarded{self: r.node(), epoch: r.Uint()}
	request := r.Rest()
	if r.Err() != nil || len(request) == 0 || relays(request[0]) || f.self == (topology.NodeID{}) {
		to.Fail(ErrMalformed) // a request must be forwarded only once
		return
	}
	s.serve(ctx, from, request, f, to)
}

// readdress sets the dedupe fields of a forwarded write. It returns an error if the sender must send the write directly
// to this node.
func (f *forwarded) readdress(id topology.PartitionID, m *command.Mutation) error {
	switch {
	case f.self == (topology.NodeID{}):
	case m.Retried:
		return &partition.NotLeader{Partition: id, Leader: f.self}
	case m.Sent:
		m.Known = f.epoch
	}
	return nil
}

// explain converts an error of a forwarded write that contains the epoch of this node, because the sender would
// attribute the epoch to another node.
func (f *forwarded) explain(id topology.PartitionID, err error) error {
	if f.self == (topology.NodeID{}) {
		return err
	}
	if _, ok := errors.AsType[*partition.DedupeUnknown](err); ok {
		return &partition.NotLeader{Partition: id, Leader: f.self}
	}
	return err
}
