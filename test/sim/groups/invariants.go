// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"hash/fnv"
	"math"
	"sort"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// invariants holds the state of the invariant checks that need a view of all nodes. The checks run for each group
// during the simulation. They find errors that the histories of keys rarely reveal, because a few hundred operations
// on four keys seldom read an old state.
type invariants struct {
	// leaders holds the replicas that have been leaders, by group and term. newest is the highest term in which a
	// group had a leader.
	leaders map[termOf]uint64
	newest  [groupCount + 1]uint64
	// entries holds the entry that the first replica applied at an index.
	entries map[stateAt]entry
	// shown holds, over time, the highest index of each group that has been acknowledged or read.
	shown [groupCount + 1][]showing
}

type termOf struct{ group, term uint64 }

type entry struct{ term, hash uint64 }

type showing struct {
	at    time.Duration
	index uint64
}

func newInvariants() invariants {
	return invariants{leaders: map[termOf]uint64{}, entries: map[stateAt]entry{}}
}

// leads checks that a term has only one leader. It also checks that a replica becomes leader only after the leases of
// all earlier leaders have ended.
func (w *simulation) leads(n *node, group, replica, term uint64) {
	w.counts.Leaders++
	w.Note("node %d leads group %d in term %d", n.ID, group, term)
	l := &w.invariants
	at := termOf{group, term}
	if other, ok := l.leaders[at]; ok && other != replica {
		w.Fail("group %d: replicas %d and %d lead in term %d", group, other, replica, term)
	}
	l.leaders[at] = replica
	l.newest[group] = max(l.newest[group], term)
	for _, other := range w.nodes {
		if other == n || other.Host == nil {
			continue
		}
		if g := other.Host.Group(group); g != nil && g.Leased(other.tokens[group], other.Now()) {
			w.Fail("group %d: node %d leads in term %d while node %d may read under its lease", group, n.ID, term,
				other.ID)
		}
	}
}

// leased checks that no newer leader existed when a replica read under its lease.
func (w *simulation) leased(n *node, group uint64) {
	if s, ok := n.Host.Status(group); ok && s.Term < w.invariants.newest[group] {
		w.Fail("group %d: node %d reads under a lease of term %d after a leader of term %d", group, n.ID, s.Term,
			w.invariants.newest[group])
	}
}

// lease calls Group.Lease and stores the token.
func (n *node) lease(g *raftgroup.Group) uint64 {
	token := g.Lease()
	n.tokens[g.ID()] = token
	return token
}

// applies checks that all replicas apply the same entry at an index.
func (w *simulation) applies(n *node, group, index, term uint64, commands [][]byte) {
	h := fnv.New64a()
	for _, c := range commands {
		_, _ = h.Write(append(c[:len(c):len(c)], byte(len(c))))
	}
	e, at := entry{term, h.Sum64()}, stateAt{group, index}
	if first, ok := w.invariants.entries[at]; ok && first != e {
		w.Fail("group %d: node %d applied at %d an entry of term %d; another replica applied a different entry of term %d",
			group, n.ID, index, term, first.term)
	}
	w.invariants.entries[at] = e
}

// checkChanges checks RG12. When a replica starts, all membership changes in its log except the last change must be
// known to be committed. The library relies on this invariant, because a replica with an unapplied committed change
// must not campaign.
func (w *simulation) checkChanges(n *node, c *raftgroup.GroupConfig) error {
	log, err := n.log.Storage(c.ID)
	if err != nil || c.Applied == 0 {
		return err
	}
	hard, _, err := log.InitialState()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil || last <= c.Applied {
		return err
	}
	entries, err := log.Entries(c.Applied+1, last+1, math.MaxUint64)
	if err != nil {
		return err
	}
	change := uint64(0)
	for _, e := range entries {
		if e.GetType() == pb.EntryNormal {
			continue
		}
		if change > hard.GetCommit() {
			w.Fail("group %d: node %d starts with membership changes at %d and %d, and its commit index is %d", c.ID,
				n.ID, change, e.GetIndex(), hard.GetCommit())
		}
		if change != 0 {
			w.counts.ChangesInLog++
		}
		change = e.GetIndex()
	}
	return nil
}

// floor returns the highest index of a group that any client or node knows.
func (w *simulation) floor(group uint64) uint64 {
	if list := w.invariants.shown[group]; len(list) > 0 {
		return list[len(list)-1].index
	}
	return 0
}

// show records that an index has become known.
func (w *simulation) show(group, index uint64) {
	if index > w.floor(group) {
		w.invariants.shown[group] = append(w.invariants.shown[group], showing{w.Now, index})
	}
}

// read checks that a read reflects every index that was known when the read began. It records the index of the state
// that the operation read.
func (w *simulation) read(o *op) {
	if o.at < o.floor {
		w.Fail("group %d: a read at node %d saw the state at %d; when it began, %d was known", o.group, o.node, o.at,
			o.floor)
	}
	w.show(o.group, o.at)
}

// checkAge checks that the state that a replica read is not older than allowed.
func (w *simulation) checkAge(n *node, group, index uint64, allowed time.Duration) {
	list := w.invariants.shown[group]
	i := sort.Search(len(list), func(i int) bool { return list[i].at >= w.Now-allowed })
	if i > 0 && list[i-1].index > index {
		w.Fail("group %d: a fresh read at node %d saw the state at %d; %d was known at %v", group, n.ID, index,
			list[i-1].index, list[i-1].at)
	}
}
