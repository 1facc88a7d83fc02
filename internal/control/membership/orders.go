// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Orders change what nodes are meant to be. Its fields are set before it is used.
type Orders struct {
	Records *meta.Keeper
	// Sched is what it waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// orderMax bounds the wait for an order to be recorded.
const orderMax = 10 * time.Second

// Order changes what a node is meant to be, to Draining or Leaving, or to Up again; name is the beginning of its id. It
// returns what to expect now.
func (o *Orders) Order(ctx context.Context, name string, to meta.NodeState) (string, error) {
	ctx, cancel := o.Sched.WithTimeout(ctx, orderMax)
	defer cancel()
	var found *meta.Node
	_, err := o.Records.Update(ctx, func(s *meta.State) (_ *meta.State, err error) {
		if found, err = Find(s, name); err != nil {
			return nil, err
		}
		if found.State == meta.Leaving && to == meta.Draining {
			return nil, fmt.Errorf("node %s is leaving, which drains it as well", found.ID.Short())
		}
		if to == meta.Leaving && found.State != meta.Leaving {
			if err := mayLeave(s, found.ID); err != nil {
				return nil, err
			}
		}
		if to == meta.Up {
			if err := mayStay(s, found); err != nil {
				return nil, err
			}
		}
		node := *found
		node.State = to
		return s.WithNode(&node), nil
	})
	if err != nil {
		return "", err
	}
	switch to {
	case meta.Up:
		return fmt.Sprintf("node %s stays: it leads and keeps replicas as others do", found.ID.Short()), nil
	case meta.Draining:
		return fmt.Sprintf("node %s gives all leaderships away; stop it when ilion status shows none",
			found.ID.Short()), nil
	}
	return fmt.Sprintf("node %s gives all replicas away and ends when it has none: see ilion status", found.ID.Short()),
		nil
}

// nameMin is how many digits an operator has to give of a node's identity: an order must not follow from a slip of a
// finger.
const nameMin = 4

// Find returns the one member whose identity, in hex, begins with name.
func Find(s *meta.State, name string) (*meta.Node, error) {
	name = strings.ToLower(name)
	if len(name) < nameMin {
		return nil, fmt.Errorf("%q is too short: give at least %d digits of the node's identity, as ilion status shows it", name, nameMin)
	}
	var found, left *meta.Node
	for _, node := range s.Nodes {
		switch {
		case !strings.HasPrefix(hex.EncodeToString(node.ID[:]), name):
		case node.State == meta.Left:
			left = node
		case found != nil:
			return nil, fmt.Errorf("%q is the beginning of more than one node's identity: give more digits of it", name)
		default:
			found = node
		}
	}
	switch {
	case found != nil:
		return found, nil
	case left != nil:
		return nil, fmt.Errorf("node %s has left already", left.ID.Short())
	}
	return nil, fmt.Errorf("there is no node whose identity begins with %q: see ilion status", name)
}

// staying counts the nodes that are there when one has left.
func staying(s *meta.State, leaver topology.NodeID) (n int) {
	for _, o := range s.Nodes {
		if o.ID != leaver && (o.State == meta.Up || o.State == meta.Draining) {
			n++
		}
	}
	return n
}

// mayStay refuses to cancel what has gone too far: a node without a replica of the meta partition hears of nothing.
func mayStay(s *meta.State, n *meta.Node) error {
	switch p := s.Map.Meta(); {
	case n.State == meta.Up:
		return fmt.Errorf("node %s has no order that could be cancelled", n.ID.Short())
	case p == nil || len(p.Sets) == 0 || p.Sets[0].On(n.ID) == nil:
		return fmt.Errorf("node %s has given everything away: it is too late to keep it", n.ID.Short())
	}
	return nil
}

// mayLeave refuses what would never end: replica sets of three and four stay at three voters at least.
func mayLeave(s *meta.State, leaver topology.NodeID) error {
	stay := staying(s, leaver)
	if stay == 0 {
		return errors.New("it is the last node of the cluster")
	}
	if p := s.Map.Meta(); stay < 3 && p != nil && len(p.Sets) > 0 && p.Sets[0].Count(topology.Voter) >= 3 {
		return fmt.Errorf("only %d nodes would stay, and replica sets keep three replicas: start another node first",
			stay)
	}
	return nil
}
