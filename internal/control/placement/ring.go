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

// NextToken returns the token of a node that joins a region. It is the middle of the largest gap between the tokens of
// the region's nodes or, if another node has this token, the next free token. Among equal gaps, NextToken uses the
// first gap in ring order. The first node gets the smallest token.
func NextToken(nodes []*meta.Node, region string) token.Token {
	var at []uint64
	taken := map[token.Token]bool{}
	for _, n := range nodes {
		if n.State == meta.Left {
			continue
		}
		for _, t := range n.Tokens {
			taken[t] = true
			if n.Region == region {
				at = append(at, t.Position())
			}
		}
	}
	next := middleOfGap(at)
	for taken[next] {
		next = token.AtPosition(next.Position() + 1)
	}
	return next
}

// middleOfGap returns the middle of the largest gap between positions on the ring.
func middleOfGap(at []uint64) token.Token {
	if len(at) == 0 {
		return token.Min
	}
	slices.Sort(at)
	at = slices.Compact(at)
	// The gap after the last token extends around the ring to the first token, so the subtraction may wrap. The gap
	// after a single token is the whole ring.
	best, size := at[len(at)-1], at[0]-at[len(at)-1]-1
	for i := 1; i < len(at); i++ {
		if gap := at[i] - at[i-1] - 1; gap > size || gap == size && best == at[len(at)-1] {
			best, size = at[i-1], gap
		}
	}
	return token.AtPosition(best + size/2 + 1)
}

// Ring is the ring of a region that drivers see.
type Ring struct {
	tokens []ringToken // tokens in ascending order
	nodes  []*meta.Node
	zone   []int // zone of each node
	zones  int
}

type ringToken struct {
	at   uint64
	node int // index of the node in nodes
}

// NewRing returns the ring of the nodes that have tokens.
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

// ids converts indexes of nodes to IDs.
func (r *Ring) ids(nodes []int) []topology.NodeID {
	out := make([]topology.NodeID, len(nodes))
	for i, n := range nodes {
		out[i] = r.nodes[n].ID
	}
	return out
}

// tokenIndex returns the index of the token that owns a position, which is the first token at or after the position.
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

// walk returns the nodes that drivers compute for NetworkTopologyStrategy with n replicas in the region. It walks the
// ring from a token and first selects one node of every zone, and then the skipped nodes in order. The result is
// shorter than n if the region has fewer nodes.
func (r *Ring) walk(from, n int) []int {
	n = min(n, len(r.nodes))
	out := make([]int, 0, n)
	var passed []int
	seen := func(node int) bool { return slices.Contains(out, node) || slices.Contains(passed, node) }
	if n > 2*Replicas { // a linear search is too slow for a long walk
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

// PreferredNodes returns the n nodes that should hold a partition, starting with the leader. If the range of one token
// contains the partition, the result contains the nodes of this token on the ring. Otherwise, a position inside the
// partition determines the nodes, so that only partitions near a new node move to this node. This position depends on
// the table. The table also determines the leader, so that leaderships are spread evenly.
func (r *Ring) PreferredNodes(p *topology.Partition, n int) []topology.NodeID {
	return r.ids(r.preferred(p.Table, p.Span, n))
}

// LeaderOrder returns the nodes in the order in which they should lead a partition. These are the nodes of the active
// pin or, if the partition has no active pin, the preferred leader and the nodes of PreferredNodes.
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

// preferred returns the result of PreferredNodes as indexes of nodes. If n is at least Replicas, the result for n is a
// prefix of the result for any larger n.
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

// shuffle orders the nodes of a set by a number. Evenly spread numbers yield evenly spread leaders, even for the sets
// of a dead leader. With ring order, one neighbor would lead all sets of a dead leader.
func shuffle(set []int, number uint64) {
	for i := range set {
		at, rest := bits.Mul64(number, uint64(len(set)-i))
		j := i + int(at)
		node := set[j]
		copy(set[i+1:j+1], set[i:j])
		set[i], number = node, rest
	}
}

// goldenRatio is 2^64 divided by the golden ratio. The multiples of this number are evenly spread.
const goldenRatio = 0x9E3779B97F4A7C15

// sqrtEleven is the fractional part of the square root of eleven times 2^64, rounded to an odd number. The multiples of
// this number are evenly spread. With the square root of two, one node would lead three of the four tables of a new
// cluster.
const sqrtEleven = 0x510E527FADE682D1
