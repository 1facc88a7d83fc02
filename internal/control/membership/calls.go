// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// Register registers the handlers of the calls of package peers.
func (m *Member) Register(s *rpc.Server) {
	rpc.Handle(s, peers.ReportCall, m.handleReport)
	rpc.Handle(s, peers.AwaitCall, m.handleAwait)
	rpc.Handle(s, peers.JoinCall, m.handleJoin)
	rpc.Handle(s, peers.AcquireCall, m.handleAcquire)
	rpc.Handle(s, peers.StopCall, m.handleStop)
	rpc.Handle(s, peers.AcknowledgedCall, m.handleAcknowledged)
	rpc.Handle(s, peers.StatsCall, m.handleStats)
}

func (m *Member) handleReport(_ context.Context, to topology.NodeID, _ rpc.None) (peers.Report, error) {
	r := m.Node.Report()
	if node := m.Metadata.State().Node(to); node != nil && node.State == meta.Left {
		r.Left = true
	}
	return r, nil
}

func (m *Member) handleAwait(ctx context.Context, _ topology.NodeID, q peers.AwaitRequest) (peers.Versions, error) {
	s, err := m.Metadata.Wait(ctx, q.Version)
	if err != nil {
		return peers.Versions{}, err
	}
	if q.Others {
		ctx, cancel := m.Sched.WithTimeout(ctx, agreementTimeout)
		defer cancel()
		m.Peers.AwaitVersion(ctx, q.Version)
	}
	return peers.Versions{Records: s.Version, Schema: s.Schema.Version}, nil
}

func (m *Member) handleJoin(ctx context.Context, from topology.NodeID, who peers.JoinRequest) (peers.JoinResponse,
	error) {
	if who.Node != from {
		return peers.JoinResponse{}, fmt.Errorf("node %x sent a join request for node %x", from, who.Node)
	}
	a := Admission{Metadata: m.Metadata, Network: m.Network, Sched: m.Sched}
	w, err := a.Admit(ctx, who)
	if rejected, ok := errors.AsType[*peers.JoinRejectedError](err); ok {
		return peers.JoinResponse{Rejected: rejected.Text}, nil
	}
	return w, err
}

func (m *Member) handleAcquire(ctx context.Context, _ topology.NodeID, _ rpc.None) (peers.AcquireResponse, error) {
	version, err := m.Metadata.Acquire(ctx)
	return peers.AcquireResponse{Version: version}, err
}

func (m *Member) handleStop(_ context.Context, from topology.NodeID, _ rpc.None) (rpc.None, error) {
	m.Peers.MarkStopping(from)
	return rpc.None{}, nil
}

func (m *Member) handleAcknowledged(_ context.Context, _ topology.NodeID, a peers.Acknowledged) (rpc.None, error) {
	for id, index := range a.To {
		if r := m.Host.Replica(id); r != nil {
			r.NoteAcknowledged(index)
		}
	}
	return rpc.None{}, nil
}

func (m *Member) handleStats(context.Context, topology.NodeID, rpc.None) (peers.NodeStats, error) {
	return m.Stats(), nil
}
