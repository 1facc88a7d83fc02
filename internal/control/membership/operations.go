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

// NodeOperations changes the intended states of nodes. The caller must set the exported fields before use.
type NodeOperations struct {
	Metadata *meta.Keeper
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// requestTimeout is the maximum wait for a metadata change.
const requestTimeout = 10 * time.Second

// SetState changes the intended state of a node to Draining, Leaving, or back to Up. name is a prefix of the node's ID.
// SetState returns a message that describes the effect of the change.
func (o *NodeOperations) SetState(ctx context.Context, name string, to meta.NodeState) (string, error) {
	ctx, cancel := o.Sched.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var found *meta.Node
	_, err := o.Metadata.Update(ctx, func(s *meta.State) (_ *meta.State, err error) {
		if found, err = Find(s, name); err != nil {
			return nil, err
		}
		if found.State == meta.Leaving && to == meta.Draining {
			return nil, fmt.Errorf("node %s is being decommissioned, which includes draining", found.ID.Short())
		}
		if to == meta.Leaving && found.State != meta.Leaving {
			if err := checkDecommission(s, found); err != nil {
				return nil, err
			}
		}
		if to == meta.Up {
			if err := checkCancel(s, found); err != nil {
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
		return fmt.Sprintf("node %s remains in the cluster and can hold replicas and lead partitions again",
			found.ID.Short()), nil
	case meta.Draining:
		return fmt.Sprintf("node %s is transferring its leaderships. Stop it when ilion status shows that it leads "+
			"no partitions",
			found.ID.Short()), nil
	}
	return fmt.Sprintf("node %s is moving its replicas, and stops when it has none. Run ilion status to see the "+
			"progress", found.ID.Short()),
		nil
}

// idPrefixMin is the minimum length of an ID prefix in digits, so that a typing error does not select another node.
const idPrefixMin = 4

// Find returns the only member whose ID, in hex, begins with name.
func Find(s *meta.State, name string) (*meta.Node, error) {
	name = strings.ToLower(name)
	if len(name) < idPrefixMin {
		return nil, fmt.Errorf("%q is too short: specify at least %d digits of the node ID shown by ilion status", name,
			idPrefixMin)
	}
	var found, left *meta.Node
	for _, node := range s.Nodes {
		switch {
		case !strings.HasPrefix(hex.EncodeToString(node.ID[:]), name):
		case node.State == meta.Left:
			left = node
		case found != nil:
			return nil, fmt.Errorf("%q is a prefix of several node IDs: specify more digits", name)
		default:
			found = node
		}
	}
	switch {
	case found != nil:
		return found, nil
	case left != nil:
		return nil, fmt.Errorf("node %s has already left the cluster", left.ID.Short())
	}
	return nil, fmt.Errorf("cannot find node: no node ID starts with %q. Run \"ilion status\" to list the nodes", name)
}

// countRemaining returns the number of nodes that remain in the region of a leaving node.
func countRemaining(s *meta.State, leaver *meta.Node) (n int) {
	for _, o := range s.Nodes {
		if o.ID != leaver.ID && o.Region == leaver.Region && (o.State == meta.Up || o.State == meta.Draining) {
			n++
		}
	}
	return n
}

// checkCancel returns an error if a decommission can no longer be canceled, because the node has no replica of the meta
// partition.
func checkCancel(s *meta.State, n *meta.Node) error {
	switch p := s.Topology.Meta(); {
	case n.State == meta.Up:
		return fmt.Errorf("node %s is neither being drained nor decommissioned", n.ID.Short())
	case p == nil || p.SetOn(n.ID) == nil:
		return fmt.Errorf("cannot cancel the decommission: node %s has already moved all its replicas", n.ID.Short())
	}
	return nil
}

// checkDecommission rejects a decommission that could never finish, because a replica set of three or four voters needs
// at least three nodes in its region.
func checkDecommission(s *meta.State, leaver *meta.Node) error {
	stay := countRemaining(s, leaver)
	voters, sets := votersIn(s.Topology, leaver.Region)
	switch {
	case stay == 0 && sets:
		return errors.New("cannot decommission the last node of the cluster")
	case stay < 3 && voters >= 3:
		return fmt.Errorf("cannot decommission node: only %d nodes would remain, and replica sets need three. Start "+
			"another node first",
			stay)
	}
	return nil
}

// votersIn returns the maximum number of voters of a replica set in a region. sets reports whether the region has
// replica sets.
func votersIn(m *topology.Snapshot, region string) (most int, sets bool) {
	for p := range m.All() {
		if set := p.Set(region); set != nil {
			most, sets = max(most, set.Count(topology.Voter)), true
		}
	}
	return most, sets
}
