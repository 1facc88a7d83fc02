// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

func rejectf(format string, args ...any) error {
	return &peers.JoinRejectedError{Text: fmt.Sprintf(format, args...)}
}

// Admission admits nodes to the cluster. The caller must set the exported fields before use.
type Admission struct {
	Metadata *meta.Keeper
	Network  Network
	// Sched provides time and waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// CheckCompatible returns an error if a node must be rejected because of its supported levels or because it has left
// the cluster (N1). The error is transport.ErrLevel if another version of the node's software would be admitted.
func CheckCompatible(s *meta.State, node topology.NodeID, levels feature.Range) error {
	if level := s.Topology.Level(); level != 0 && !levels.Has(level) {
		return fmt.Errorf("the cluster uses feature level %d, but node %s supports only %s: %w", level, node.Short(),
			levels, transport.ErrLevel)
	}
	if n := s.Node(node); n != nil && n.State == meta.Left {
		return fmt.Errorf("node %s has left the cluster", node.Short())
	}
	return nil
}

// Admit adds a node to the metadata. The error is a *peers.JoinRejectedError if retrying is useless.
func (a *Admission) Admit(ctx context.Context, who peers.JoinRequest) (peers.JoinResponse, error) {
	if err := a.verifyAddress(ctx, who); err != nil {
		return peers.JoinResponse{}, err
	}
	s, err := a.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		known := s.Node(who.Node)
		switch {
		case known != nil && known.State == meta.Left:
			return nil, rejectf("node %s has left the cluster: start it with an empty data directory", who.Node.Short())
		case known != nil && known.CreationID != who.CreationID:
			return nil, rejectf("node %s is already a member, with another data directory that contains its Raft "+
				"votes. Give the "+
				"new directory its own identity (ilion cert node), and decommission %s if its disk is lost",
				who.Node.Short(), who.Node.Short())
		case !levelsOf(&who).Has(s.Topology.Level()):
			return nil, rejectf("the cluster uses feature level %d, but the node supports only %s",
				s.Topology.Level(), levelsOf(&who))
		case topology.MetaSet(s.Topology) == nil:
			return nil, errors.New("this node does not belong to a cluster")
		case known != nil && known.Region != who.Region:
			return nil, rejectf("node %s is in region %q: start it with --region %s; to add a node in another region, "+
				"start it on an empty directory", who.Node.Short(), known.Region, known.Region)
		}
		if _, err := RegionNumber(s, who.Region); err != nil {
			return nil, &peers.JoinRejectedError{Text: err.Error()}
		}
		node := nodeOf(&who)
		node.Joined = a.Sched.Wall().UTC().Truncate(time.Millisecond)
		if err := node.Check(); err != nil {
			return nil, &peers.JoinRejectedError{Text: err.Error()}
		}
		if known != nil {
			node.Tokens, node.Joined = known.Tokens, known.Joined
		} else {
			node.Tokens = []token.Token{placement.NextToken(s.Nodes, who.Region)}
		}
		next := s.WithNode(node)
		set := topology.MetaSet(s.Topology)
		if set.On(who.Node) != nil {
			return next, nil
		}
		m, _, err := s.Topology.AddMember(topology.MetaPartition, set.Region, who.Node, topology.Learner)
		if err != nil {
			return nil, err
		}
		return next.WithTopology(m), nil
	})
	if err != nil {
		return peers.JoinResponse{}, err
	}
	w := peers.JoinResponse{Replica: topology.MetaSet(s.Topology).On(who.Node).ID, Nodes: map[string]topology.NodeID{}}
	for _, node := range s.Nodes {
		if node.State != meta.Left {
			w.Nodes[node.Internal] = node.ID
		}
	}
	return w, nil
}

// verifyTimeout is the maximum wait for a joining node to respond at its address.
const verifyTimeout = 2 * time.Second

// verifyAddress checks that a joining node is reachable at its address, because other nodes would wait for an
// unreachable member.
func (a *Admission) verifyAddress(ctx context.Context, who peers.JoinRequest) error {
	ctx, cancel := a.Sched.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	p, err := a.Network.Discover(ctx, who.Internal)
	switch {
	case err != nil:
		for _, n := range a.Metadata.State().Nodes {
			if n.Internal == who.Internal && n.ID != who.Node && n.State != meta.Left {
				return fmt.Errorf("cannot connect to the new node at %s, which is also the address of node %s (see "+
					"cluster.advertise): %w", who.Internal, n.ID.Short(), err)
			}
		}
		return fmt.Errorf("cannot connect to the new node at %s (see cluster.advertise): %w", who.Internal, err)
	case p.Node != who.Node && a.addressOf(p.Node) == who.Internal:
		return rejectf("the node advertises %s, which is the address of node %s: give it another address "+
			"(--internal, --advertise)", who.Internal, p.Node.Short())
	case p.Node != who.Node:
		return fmt.Errorf("node %s advertises %s, but node %s responds there (see cluster.advertise)", who.Node.Short(),
			who.Internal, p.Node.Short())
	}
	return nil
}

// addressOf returns the internal address of a node, or an empty string if the node is not a member.
func (a *Admission) addressOf(node topology.NodeID) string {
	if n := a.Metadata.State().Node(node); n != nil && n.State != meta.Left {
		return n.Internal
	}
	return ""
}

func levelsOf(n *peers.JoinRequest) feature.Range {
	return feature.Range{Oldest: n.Oldest, Newest: n.Newest}
}

// nodeOf returns the node of a join request. The member that admits the node assigns the tokens and the join time.
func nodeOf(n *peers.JoinRequest) *meta.Node {
	return &meta.Node{
		ID: n.Node, Internal: n.Internal, CQL: n.CQL, HTTP: n.HTTP, Region: n.Region, Zone: n.Zone, State: meta.Up,
		Levels: levelsOf(n), CreationID: n.CreationID,
	}
}

func joinRequest(n *meta.Node) peers.JoinRequest {
	return peers.JoinRequest{
		Node: n.ID, CreationID: n.CreationID, Internal: n.Internal, CQL: n.CQL, HTTP: n.HTTP, Region: n.Region,
		Zone:   n.Zone,
		Oldest: n.Levels.Oldest, Newest: n.Levels.Newest,
	}
}
