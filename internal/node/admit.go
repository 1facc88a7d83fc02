// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

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
