// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"
	"sync/atomic"
)

// routesMax bounds the routes that are learnt from senders; those of members are always known.
const routesMax = 64

// routes say on which nodes a group's replicas are. The loop changes them, by replacing the whole; anybody reads them.
type routes struct{ known atomic.Pointer[[]Member] }

func (r *routes) set(to []Member) { r.known.Store(&to) }

// all are the replicas whose node is known.
func (r *routes) all() []Member { return *r.known.Load() }

// of returns where a replica is, nil if it is not known.
func (r *routes) of(replica uint64) *Member {
	known := r.all()
	for i := range known {
		if known[i].Replica == replica {
			return &known[i]
		}
	}
	return nil
}

// add adds those that are not known yet, and returns them.
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

// route returns where a replica is, nil if it is not known.
func (g *Group) route(replica uint64) *Member { return g.routes.of(replica) }

// learn notes the node that a message came from: a replica that was just added knows nobody yet.
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

// pruneRoutes forgets replicas that are no members, when there are many: each move leaves one.
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

// has reports whether a replica is a member that a leader answers.
func (g *Group) has(replica uint64) bool {
	return slices.Contains(g.conf.GetVoters(), replica) || slices.Contains(g.conf.GetVotersOutgoing(), replica) ||
		slices.Contains(g.conf.GetLearners(), replica)
}
