// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"
)

// routesMax is the maximum number of routes to replicas that are not members.
const routesMax = 64

// membership holds the members of a group and the nodes of its replicas.
type membership struct {
	// conf is the current configuration. Only the loop uses it.
	conf *pb.ConfState
	// known holds the members and other replicas whose node is known. The loop replaces the slice, and all goroutines
	// may read it.
	known atomic.Pointer[[]Member]
}

func (c *membership) set(to []Member) { c.known.Store(&to) }

// all returns the replicas whose node is known.
func (c *membership) all() []Member { return *c.known.Load() }

// of returns the member entry of a replica, or nil if the replica's node is unknown.
func (c *membership) of(replica uint64) *Member {
	known := c.all()
	for i := range known {
		if known[i].Replica == replica {
			return &known[i]
		}
	}
	return nil
}

// add adds unknown replicas and returns them.
func (c *membership) add(more []Member) (added []Member) {
	known := slices.Clone(c.all())
	for _, m := range more {
		if !slices.ContainsFunc(known, func(k Member) bool { return k.Replica == m.Replica }) {
			known, added = append(known, m), append(added, m)
		}
	}
	c.set(known)
	return added
}

// route returns the member entry of a replica, or nil if the replica's node is unknown.
func (g *Group) route(replica uint64) *Member { return g.membership.of(replica) }

// learn stores the node from which a message came, because a new replica does not know the nodes of other replicas.
func (g *Group) learn(replica uint64, node NodeID) {
	if g.route(replica) == nil && len(g.membership.all()) < routesMax {
		g.addRoutes([]Member{{Replica: replica, Node: node}})
	}
}

func (g *Group) addRoutes(more []Member) {
	for _, m := range g.membership.add(more) {
		if m.Node != g.host.opts.Node {
			g.host.peers.of(m.Node)
		}
	}
}

// prune forgets the replicas that are not members if too many replicas are known.
func (c *membership) prune() {
	if len(c.all()) > routesMax/4 {
		c.set(c.members())
	}
}

// members returns the members of the current configuration with their nodes.
func (c *membership) members() []Member {
	var out []Member
	for _, list := range [][]uint64{
		c.conf.GetVoters(), c.conf.GetVotersOutgoing(), c.conf.GetLearners(), c.conf.GetLearnersNext(),
	} {
		for _, id := range list {
			r := c.of(id)
			if r != nil && !slices.ContainsFunc(out, func(m Member) bool { return m.Replica == id }) {
				out = append(out, *r)
			}
		}
	}
	return out
}

// has reports whether a replica is a member of the current configuration.
func (c *membership) has(replica uint64) bool {
	return slices.Contains(c.conf.GetVoters(), replica) || slices.Contains(c.conf.GetVotersOutgoing(), replica) ||
		slices.Contains(c.conf.GetLearners(), replica)
}

// joint reports whether the group is in a joint configuration.
func (c *membership) joint() bool { return len(c.conf.GetVotersOutgoing()) > 0 }
