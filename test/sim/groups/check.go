// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// history holds the operations of all clients and their results.
type history struct {
	ops    []*op
	values uint64
	last   []*op // operations of the final reads
	// attempts holds the proposals of clients, numbered from 1.
	attempts []attempt
	// latches holds the latches of evaluations. A group has at most one latch, on one leader in one term.
	latches map[latchAt]bool
}

// attempt is a proposal of an operation.
type attempt struct {
	// index is the index at which the first replica applied the attempt.
	index  uint64
	failed bool
}

// attempted assigns a number to a proposal.
func (h *history) attempted() uint64 {
	h.attempts = append(h.attempts, attempt{})
	return uint64(len(h.attempts))
}

// attemptApplied checks that an attempt is applied at only one index, and never after the client received a definite
// failure.
func (w *simulation) attemptApplied(id uint64, n *node, group, index uint64) {
	a := &w.hist.attempts[id-1]
	if a.failed {
		w.Fail("group %d, entry %d on node %d: attempt %d is applied but was reported as failed", group, index, n.ID,
			id)
	}
	if a.index != 0 && a.index != index {
		w.Fail("group %d, entry %d on node %d: attempt %d was also applied at %d", group, index, n.ID, id, a.index)
	}
	a.index = index
}

// attemptFailed records that a client received a definite failure.
func (w *simulation) attemptFailed(id uint64, why error) {
	a := &w.hist.attempts[id-1]
	a.failed = true
	if a.index != 0 {
		w.Fail("attempt %d was applied at %d but is reported as failed: %v", id, a.index, why)
	}
}

// attemptDone checks that a reported success is correct.
func (w *simulation) attemptDone(id, group, index uint64) {
	w.show(group, index)
	if a := w.hist.attempts[id-1]; a.index != index {
		w.Fail("attempt %d succeeded at %d but was applied at %d", id, index, a.index)
	}
}

type latchAt struct {
	node, life  int
	group, term uint64
}

func (h *history) newValue() uint64 { h.values++; return h.values }

func (h *history) add(o *op) {
	o.id = len(h.ops)
	h.ops = append(h.ops, o)
}

// drop removes an operation that never reached a node.
func (h *history) drop(o *op) { h.ops[o.id] = nil }

func (h *history) latched(n *node, group, term uint64) bool {
	return h.latches[latchAt{n.ID, n.Life, group, term}]
}

func (h *history) latch(n *node, group, term uint64) (release func()) {
	if h.latches == nil {
		h.latches = map[latchAt]bool{}
	}
	at := latchAt{n.ID, n.Life, group, term}
	h.latches[at] = true
	return func() { delete(h.latches, at) }
}

// crashed ends the operations in flight on a node. The operations are lost, or their outcome is unknown.
func (h *history) crashed(node int) {
	for _, o := range h.ops {
		if o == nil || o.next == nil || o.node != node {
			continue
		}
		next := o.next
		o.next = nil
		if !o.sent {
			h.drop(o)
		}
		next()
	}
}

// input and output are the input and output that porcupine checks.
type input struct {
	kind  opKind
	value uint64
}

type output struct {
	value   uint64
	unknown bool
}

// register models a key as a number that clients set, increment, and read. An operation with an unknown outcome
// accepts any response.
var register = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(uint64), in.(input), out.(output)
		switch i.kind {
		case opWrite:
			return true, i.value
		case opRead:
			return o.unknown || o.value == s, s
		case opAdd:
			return o.unknown || o.value == s+1, s + 1
		default: // opBump sets the last value that it saw plus one, if the state has not changed in between
			if i.value == s+1 {
				return true, i.value
			}
			return o.unknown, s
		}
	},
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%v %d -> %v", in.(input).kind, in.(input).value, out.(output))
	},
}

// checkHistories checks every key. checkHistories returns the number of keys whose check timed out.
func (w *simulation) checkHistories() (unchecked int) {
	keys := map[string][]*op{}
	var names []string
	for _, o := range w.hist.ops {
		if o == nil || !o.done && o.kind == opRead {
			continue
		}
		name := fmt.Sprintf("%d/%s", o.group, o.key)
		if keys[name] == nil {
			names = append(names, name)
		}
		keys[name] = append(keys[name], o)
	}
	sort.Strings(names)
	for _, o := range w.hist.last {
		if !o.done {
			w.Fail("group %d: the final read of %s failed", o.group, o.key)
		}
	}
	for _, name := range names {
		ops := operations(keys[name])
		switch porcupine.CheckOperationsTimeout(register, ops, 10*time.Second) {
		case porcupine.Illegal:
			w.Fail("key %s is not linearizable (%d operations)", name, len(ops))
		case porcupine.Unknown:
			unchecked++
		}
	}
	return unchecked
}

// operations returns the operations to check. An operation is omitted if its outcome is unknown and no client has seen
// its value, because the operation may not have happened. An opBump is not omitted: each bump adds one, so all numbers
// up to the highest number seen must have existed.
func operations(ops []*op) []porcupine.Operation {
	seen := map[uint64]bool{}
	highest := uint64(0)
	for _, o := range ops {
		if o.done {
			seen[o.value] = true
			highest = max(highest, o.value)
		}
	}
	var out []porcupine.Operation
	for _, o := range ops {
		if !o.done && (o.kind == opWrite && !seen[o.value] || o.kind == opBump && o.value > highest) {
			continue
		}
		end := int64(math.MaxInt64)
		if o.done {
			end = int64(o.ended)
		}
		out = append(out, porcupine.Operation{
			ClientId: o.client, Input: input{o.kind, o.value}, Call: int64(o.called), Output: output{o.value, !o.done},
			Return: end,
		})
	}
	return out
}

// compareStates checks that a node's groups hold the same state as every other replica at the same applied index.
func (w *simulation) compareStates(n *node) {
	if !w.OneIn(6) || n.store == nil {
		return
	}
	group := 1 + w.Rand.Uint64N(groupCount)
	m, ok, err := n.store.Meta(group)
	if err != nil || !ok || m.Applied == 0 {
		return
	}
	hash, err := n.store.Hash(group)
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return
	}
	at := stateAt{group, m.Applied}
	if first, ok := w.hashes[at]; !ok {
		w.hashes[at] = hash
	} else if first != hash {
		w.Fail("group %d at %d: node %d holds %016x, another replica %016x", group, m.Applied, n.ID, hash, first)
	} else {
		w.counts.Compared++
	}
}

// checkConverged checks that all members of a group end with the same applied index and the same state.
func (w *simulation) checkConverged() {
	for group := uint64(1); group <= groupCount; group++ {
		leader := w.leaderOf(group)
		if leader == nil {
			w.Fail("group %d has no leader at the end", group)
			continue
		}
		s, _ := leader.Host.Status(group)
		want, err := leader.store.Hash(group)
		if err != nil {
			w.Fail("node %d: %v", leader.ID, err)
		}
		replicas := append(append([]uint64{}, s.Members.GetVoters()...), s.Members.GetLearners()...)
		found := 0
		for _, n := range w.nodes {
			g := n.Host.Group(group)
			if g == nil {
				continue
			}
			member := false
			for _, r := range replicas {
				member = member || r == g.Replica()
			}
			if !member {
				continue
			}
			found++
			if k := n.store.Kept(); k != 0 {
				w.Fail("node %d: %d snapshots were not closed", n.ID, k)
			}
			hash, err := n.store.Hash(group)
			if err != nil || hash != want || g.Applied() != s.Applied {
				w.Fail("group %d: node %d applied %d hash %016x, leader applied %d hash %016x (%v)", group, n.ID,
					g.Applied(), hash, s.Applied, want, err)
			}
		}
		if found != len(replicas) {
			w.Fail("group %d: %d of %d members found", group, found, len(replicas))
		}
		w.Note("group %d converged at %d: %016x", group, s.Applied, want)
	}
}

// leaderOf returns the node that leads a group in the highest term.
func (w *simulation) leaderOf(group uint64) (leader *node) {
	term := uint64(0)
	for _, n := range w.nodes {
		if n.leading(group) == nil {
			continue
		}
		if s, _ := n.Host.Status(group); s.Term > term {
			leader, term = n, s.Term
		}
	}
	return leader
}
