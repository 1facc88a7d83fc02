// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"
	"sync/atomic"
)

// routesMax is the maximum number of routes learned from senders. Routes of members are always kept.
const routesMax = 64

// routes holds the nodes of a group's replicas. The loop replaces routes as a whole, and all goroutines may read them.
type routes struct{ known atomic.Pointer[[]Member] }

func (r *routes) set(to []Member) { r.known.Store(&to) }

// all returns the replicas whose node is known.
func (r *routes) all() []Member { return *r.known.Load() }

// of returns the member entry of a replica, or nil if its node is unknown.
func (r *routes) of(replica uint64) *Member {
	known := r.all()
	for i := range known {
		if known[i].Replica == replica {
			return &known[i]
		}
	}
	return nil
}

// add adds unknown replicas and returns them.
func (r *routes) add(more []Member) (added []Member) {
	known := slices.Clone(r.all())
	for _, m := range more {
		if !slices.ContainsFunc(known, func(k Member) bool { return k.Replica == m.Replica }) {
			known, added = append(known, m), append(added, m)
		}
	}
	r.set(known)
	return added
}

// route returns the member entry of a replica, or nil if its node is unknown.
func (g *Group) route(replica uint64) *Member { return g.routes.of(replica) }

// learn stores the node from which a message came, because a new replica does not know other nodes.
func (g *Group) learn(replica uint64, node NodeID) {
	if g.route(replica) == nil && len(g.routes.all()) < routesMax {
		g.addRoutes([]Member{{Replica: replica, Node: node}})
	}
}

func (g *Group) addRoutes(more []Member) {
	for _, m := range g.routes.add(more) {
		if m.Node != g.host.opts.Node {
			g.host.peers.of(m.Node)
		}
	}
}

// pruneRoutes removes replicas that are not members if too many routes are stored. Each move of a replica leaves one
// route.
func (g *Group) pruneRoutes() {
	if len(g.routes.all()) > routesMax/4 {
		g.routes.set(g.members())
	}
}

// members returns the members of the current configuration with their nodes.
func (g *Group) members() []Member {
	var out []Member
	for _, list := range [][]uint64{
		g.conf.GetVoters(), g.conf.GetVotersOutgoing(), g.conf.GetLearners(), g.conf.GetLearnersNext(),
	} {
		for _, id := range list {
			r := g.route(id)
			if r != nil && !slices.ContainsFunc(out, func(m Member) bool { return m.Replica == id }) {
				out = append(out, *r)
			}
		}
	}
	return out
}

// has reports whether a replica is a member to which a leader responds.
func (g *Group) has(replica uint64) bool {
	return slices.Contains(g.conf.GetVoters(), replica) || slices.Contains(g.conf.GetVotersOutgoing(), replica) ||
		slices.Contains(g.conf.GetLearners(), replica)
}
