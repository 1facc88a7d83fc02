// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// NextToken is the token of a node that joins: the middle of the largest gap between the tokens of all nodes, the first
// of several equal ones in ring order. The first node of all gets the smallest token.
func NextToken(nodes []*meta.Node) token.Token {
	var at []uint64
	for _, n := range nodes {
		if n.State == meta.Left {
			continue
		}
		for _, t := range n.Tokens {
			at = append(at, t.Position())
		}
	}
	if len(at) == 0 {
		return token.Min
	}
	slices.Sort(at)
	at = slices.Compact(at)
	// The gap after the last token goes around the ring to the first; differences wrap alike. One token alone has all
	// the ring after it.
	best, size := at[len(at)-1], at[0]-at[len(at)-1]-1
	for i := 1; i < len(at); i++ {
		if gap := at[i] - at[i-1] - 1; gap > size || gap == size && best == at[len(at)-1] {
			best, size = at[i-1], gap
		}
	}
	return token.AtPosition(best + size/2 + 1)
}

// Ring is the ring of a region as drivers see it.
type Ring struct {
	tokens []ringToken // ascending
	nodes  []*meta.Node
	zone   []int // of each node
	zones  int
}

type ringToken struct {
	at   uint64
	node int // its place in nodes
}

// NewRing is the ring of the nodes that have tokens.
func NewRing(nodes []*meta.Node) *Ring {
	r := &Ring{}
	zones := map[string]int{}
	for _, n := range nodes {
		if len(n.Tokens) == 0 {
			continue
		}
		zone, ok := zones[n.Zone]
		if !ok {
			zone = len(zones)
			zones[n.Zone] = zone
		}
		for _, t := range n.Tokens {
			r.tokens = append(r.tokens, ringToken{t.Position(), len(r.nodes)})
		}
		r.nodes, r.zone = append(r.nodes, n), append(r.zone, zone)
	}
	r.zones = len(zones)
	slices.SortFunc(r.tokens, func(a, b ringToken) int {
		return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(r.nodes[a.node].ID[:], r.nodes[b.node].ID[:]))
	})
	return r
}

// ids are the ids of nodes of the ring.
func (r *Ring) ids(nodes []int) []topology.NodeID {
	out := make([]topology.NodeID, len(nodes))
	for i, n := range nodes {
		out[i] = r.nodes[n].ID
	}
	return out
}

// tokenIndex is the index of the token that owns a place: the first at or after it.
func (r *Ring) tokenIndex(at uint64) int {
	i, _ := slices.BinarySearchFunc(r.tokens, at, func(t ringToken, at uint64) int {
		if t.at < at {
			return -1
		}
		return 1
	})
	if i == len(r.tokens) {
		return 0
	}
	return i
}

// walk is what drivers compute for NetworkTopologyStrategy with n replicas in the region: along the ring from a token,
// first a node of every zone, then those that were passed over, in order. With one zone these are the next n nodes. It
// is shorter if there are fewer nodes.
func (r *Ring) walk(from, n int) []int {
	n = min(n, len(r.nodes))
	out := make([]int, 0, n)
	var passed []int
	seen := func(node int) bool { return slices.Contains(out, node) || slices.Contains(passed, node) }
	if n > 2*Replicas { // a long walk looks too long for each
		met := make([]bool, len(r.nodes))
		seen = func(node int) bool {
			was := met[node]
			met[node] = true
			return was
		}
	}
	zones := make([]bool, r.zones)
	covered := 0
	for i := 0; i < len(r.tokens) && len(out) < n; i++ {
		node := r.tokens[(from+i)%len(r.tokens)].node
		if seen(node) {
			continue
		}
		switch {
		case !zones[r.zone[node]]:
			zones[r.zone[node]] = true
			covered++
			out = append(out, node)
			if covered == r.zones {
				take := min(len(passed), n-len(out))
				out, passed = append(out, passed[:take]...), passed[take:]
			}
		case covered == r.zones:
			out = append(out, node)
		default:
			passed = append(passed, node)
		}
	}
	return out
}

// PreferredNodes is the n nodes that are to hold a partition, the first to lead it: those of the ring, if the partition
// is in the range of one token. Of one that holds several, a point inside decides that depends on the table, so that
// only those near a new node move there; the table also decides which of them leads, so that all lead as many.
func (r *Ring) PreferredNodes(p *topology.Partition, n int) []topology.NodeID {
	return r.ids(r.preferred(p.Table, p.Span, n))
}

// LeaderOrder is the order in which nodes are to lead a partition: that of its wish while one is open, else who was
// named to lead it, and then that of Home.
func (r *Ring) LeaderOrder(p *topology.Partition, now time.Time) []topology.NodeID {
	if p.Pin.Active(now) {
		return p.Pin.Nodes
	}
	home := r.PreferredNodes(p, Replicas)
	if p.Lead != (topology.NodeID{}) {
		home = slices.Insert(home, 0, p.Lead)
	}
	return home
}

// preferred is Home by places in nodes. Those of fewer nodes, if no fewer than Replicas, are a prefix of those of more.
func (r *Ring) preferred(table uint32, span topology.Span, n int) []int {
	if len(r.tokens) == 0 {
		return nil
	}
	tokens := span.Tokens()
	begin, last := max(tokens.Begin, 1), tokens.Limit-1 // no key has the first token
	number := uint64(table)*goldenRatio + begin*sqrtEleven
	if first := r.tokenIndex(begin); first == r.tokenIndex(last) && (r.tokens[first].at >= last ||
		r.tokens[first].at < begin) {
		home := r.walk(first, n)
		shuffle(home[min(1, len(home)):min(Replicas, len(home))], number)
		return home
	}
	inside, _ := bits.Mul64(uint64(table)*goldenRatio, last-begin)
	home := r.walk(r.tokenIndex(begin+inside), n)
	set := home[:min(Replicas, len(home))]
	slices.SortFunc(set, func(a, b int) int { return bytes.Compare(r.nodes[a].ID[:], r.nodes[b].ID[:]) })
	shuffle(set, uint64(table)*sqrtEleven)
	return home
}

// shuffle orders the nodes of a set by a number, the leader first: numbers that are spread evenly lead to leaders that
// are, and so do those of the sets that a dead node led. In the order of the ring its neighbour would lead them all.
func shuffle(set []int, number uint64) {
	for i := range set {
		at, rest := bits.Mul64(number, uint64(len(set)-i))
		j := i + int(at)
		node := set[j]
		copy(set[i+1:j+1], set[i:j])
		set[i], number = node, rest
	}
}

// goldenRatio is 2^64 divided by the golden ratio: its multiples are spread evenly.
const goldenRatio = 0x9E3779B97F4A7C15

// sqrtEleven is 2^64 times the fraction of the square root of eleven, odd: its multiples, too, and in another order.
// With that of two one node would lead three of the four tables of a fresh cluster.
const sqrtEleven = 0x510E527FADE682D1
