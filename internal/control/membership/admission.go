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

func refuse(format string, args ...any) error {
	return &peers.Refusal{Text: fmt.Sprintf(format, args...)}
}

// Admission takes newcomers in. Its fields are set before it is used.
type Admission struct {
	Records *meta.Keeper
	Network Network
	// Sched is what it tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Refuse returns why a node is to be kept out whose build understands the levels; nil if it is not (N1). The error is
// transport.ErrLevel if another build of the node would be let in.
func Refuse(s *meta.State, node topology.NodeID, levels feature.Range) error {
	if level := s.Map.Level(); level != 0 && !levels.Has(level) {
		return fmt.Errorf(
			"the cluster works at feature level %d, the build of node %s understands %s: %w",
			level,
			node.Short(),
			levels,
			transport.ErrLevel,
		)
	}
	if n := s.Node(node); n != nil && n.State == meta.Left {
		return fmt.Errorf("node %s has left the cluster", node.Short())
	}
	return nil
}

// Admit takes a newcomer into the records, where everybody sees it. The error is a *peers.Refusal if asking again is of
// no use.
func (a *Admission) Admit(ctx context.Context, who peers.Newcomer) (peers.Welcome, error) {
	if err := a.callBack(ctx, who); err != nil {
		return peers.Welcome{}, err
	}
	s, err := a.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		known := s.Node(who.Node)
		switch {
		case known != nil && known.State == meta.Left:
			return nil, refuse("node %s has left the cluster: start it on an empty directory", who.Node.Short())
		case known != nil && known.Birth != who.Birth:
			return nil, refuse("node %s is a member already, with another data directory: what it has promised there binds it. "+
				"Give the new directory an identity of its own (ilion cert node), and decommission %s if its disk is lost",
				who.Node.Short(), who.Node.Short())
		case !levelsOf(&who).Has(s.Map.Level()):
			return nil, refuse("the cluster works at feature level %d, the build of the node understands %s",
				s.Map.Level(), levelsOf(&who))
		case s.Map.Meta() == nil:
			return nil, errors.New("this node has no cluster")
		case s.Map.Meta().Sets[0].Region != who.Region:
			// It would hold no replica, and EACH_QUORUM would not ask it.
			region := s.Map.Meta().Sets[0].Region
			return nil, refuse("the node is in region %q, the cluster in region %q, and a cluster has one region in this version: "+
				"start the node with --region %s, or found a cluster of its own", who.Region, region, region)
		}
		node := recordOf(&who)
		node.Joined = a.Sched.Wall().UTC().Truncate(time.Millisecond)
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
func (a *Admission) callBack(ctx context.Context, who peers.Newcomer) error {
	ctx, cancel := a.Sched.WithTimeout(ctx, callBackTimeout)
	defer cancel()
	p, err := a.Network.Discover(ctx, who.Internal)
	switch {
	case err != nil:
		for _, n := range a.Records.State().Nodes {
			if n.Internal == who.Internal && n.ID != who.Node && n.State != meta.Left {
				return fmt.Errorf("this node cannot reach the new one at %s, which is the address of node %s too (see "+
					"cluster.advertise): %w", who.Internal, n.ID.Short(), err)
			}
		}
		return fmt.Errorf("this node cannot reach the new one at %s (see cluster.advertise): %w", who.Internal, err)
	case p.Node != who.Node && a.at(p.Node) == who.Internal:
		return refuse("the node says that it is at %s, which is the address of node %s: give it an address of its own "+
			"(--internal, --advertise)", who.Internal, p.Node.Short())
	case p.Node != who.Node:
		return fmt.Errorf(
			"node %s says that it is at %s, where node %s answers (see cluster.advertise)",
			who.Node.Short(),
			who.Internal,
			p.Node.Short(),
		)
	}
	return nil
}

// at returns the internal address of a member, empty if there is no such member.
func (a *Admission) at(node topology.NodeID) string {
	if n := a.Records.State().Node(node); n != nil && n.State != meta.Left {
		return n.Internal
	}
	return ""
}

func levelsOf(n *peers.Newcomer) feature.Range {
	return feature.Range{Oldest: n.Oldest, Newest: n.Newest}
}

// recordOf is the record of a newcomer, newcomer what a record says of a node that is to join. Tokens and the time of
// joining are given by the member that takes it in.
func recordOf(n *peers.Newcomer) *meta.Node {
	return &meta.Node{
		ID: n.Node, Internal: n.Internal, CQL: n.CQL, HTTP: n.HTTP, Region: n.Region, Zone: n.Zone, State: meta.Up,
		Levels: levelsOf(n), Birth: n.Birth,
	}
}

func newcomer(n *meta.Node) peers.Newcomer {
	return peers.Newcomer{
		Node: n.ID, Birth: n.Birth, Internal: n.Internal, CQL: n.CQL, HTTP: n.HTTP, Region: n.Region, Zone: n.Zone,
		Oldest: n.Levels.Oldest, Newest: n.Levels.Newest,
	}
}
