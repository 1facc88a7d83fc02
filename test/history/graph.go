// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"sort"
)

// kind is a set of reasons why one transaction depends on another transaction.
type kind uint8

const (
	ww kind = 1 << iota // overwrote a version that the other transaction wrote
	wr                  // read a version that the other transaction wrote
	rw                  // overwrote a version that the other transaction read
	rt                  // started after the other transaction had ended
)

// edge is an edge to a dependent transaction. The graph also has nodes for the points in time at which a transaction
// has ended.
type edge struct {
	from, to int
	kind     kind
	item     string
}

type graph struct {
	txns []Txn
	out  [][]edge
}

func (g *graph) add(from, to int, k kind, item string) {
	if from != to {
		g.out[from] = append(g.out[from], edge{from, to, k, item})
	}
}

// build builds the graph. build returns a verdict for anomalies that can be detected without a cycle.
func (g *graph) build() *Verdict {
	n := len(g.txns)
	g.out = make([][]edge, n, 2*n)
	wrote, next := map[Version]int{}, map[Version]int{}
	wrong := func(anomaly string, i, j int, v Version) *Verdict {
		return &Verdict{Anomaly: anomaly, Snapshot: true, Timeless: true,
			Cycle: []string{g.txns[i].Name, fmt.Sprintf("and, of %s %q,", v.Item, v.Value), g.txns[j].Name}}
	}
	for i := range g.txns {
		for _, w := range g.txns[i].Writes {
			if j, twice := wrote[w.Version]; twice {
				return wrong("version written twice", j, i, w.Version)
			}
			wrote[w.Version] = i
			if over := (Version{w.Item, w.Over}); w.Known {
				if j, twice := next[over]; twice {
					return wrong("lost update", j, i, over)
				}
				next[over] = i
			}
		}
	}
	for over, i := range next {
		if j, ok := wrote[over]; ok {
			g.add(j, i, ww, over.Item)
		}
	}
	for i := range g.txns {
		for _, r := range g.txns[i].Reads {
			j, ok := wrote[r]
			if !ok && r.Value != "" {
				return wrong("read of an unwritten value", i, i, r)
			}
			if ok {
				g.add(j, i, wr, r.Item)
			}
			if j, ok := next[r]; ok {
				g.add(i, j, rw, r.Item)
			}
		}
	}
	for i := range g.out { // sort the edges, which map iteration has added in random order
		slices.SortFunc(g.out[i], func(a, b edge) int { return a.to - b.to })
	}
	g.addTime()
	return nil
}

// addTime adds a point in time for the end of each transaction, in order. An edge leads from each transaction to the
// point of its end. An edge also leads to each transaction from the last point before its start.
func (g *graph) addTime() {
	var ended []int
	for i := range g.txns {
		if g.txns[i].End < Never {
			ended = append(ended, i)
		}
	}
	sort.SliceStable(ended, func(a, b int) bool { return g.txns[ended[a]].End < g.txns[ended[b]].End })
	first := len(g.txns)
	for m, i := range ended {
		g.out = append(g.out, nil)
		g.add(i, first+m, rt, "")
		if m > 0 {
			g.add(first+m-1, first+m, rt, "")
		}
	}
	for i := range g.txns {
		m := sort.Search(len(ended), func(m int) bool { return g.txns[ended[m]].End >= g.txns[i].Begin })
		if m > 0 {
			g.add(first+m-1, i, rt, "")
		}
	}
}

// cycle returns a short cycle that contains a transaction and only edges of some kinds, or nil.
func (g *graph) cycle(kinds kind) []edge {
	for _, part := range g.components(kinds) {
		in := map[int]bool{}
		for _, i := range part {
			in[i] = true
		}
		for _, i := range part {
			if i >= len(g.txns) {
				continue
			}
			for _, e := range g.out[i] {
				if e.kind&kinds == 0 || !in[e.to] {
					continue
				}
				return append([]edge{e}, g.path(e.to, i, kinds, false)...)
			}
		}
	}
	return nil
}

// skew returns a cycle with a dependency of kind rw that snapshot isolation does not allow. The cycle has one such
// edge. If many is set, it may have several such edges that are never adjacent.
func (g *graph) skew(many bool) []edge {
	kinds := ww | wr
	if many {
		kinds |= rw
	}
	for _, part := range g.components(ww | wr | rw) {
		in := map[int]bool{}
		for _, i := range part {
			in[i] = true
		}
		for _, i := range part {
			for _, e := range g.out[i] {
				if e.kind != rw || !in[e.to] {
					continue
				}
				if way := g.path(e.to, i, kinds, true); way != nil {
					return append([]edge{e}, way...)
				}
			}
		}
	}
	return nil
}

// path returns a shortest path with edges of some kinds, or nil. If apart is set, edges of kind rw are not adjacent
// and are neither the first nor the last edge.
func (g *graph) path(from, to int, kinds kind, apart bool) []edge {
	type state struct {
		node int
		rw   bool // the last edge was of kind rw
	}
	begin := state{from, apart}
	came := map[state]edge{}
	before := map[state]state{}
	seen := map[state]bool{begin: true}
	for queue := []state{begin}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if s.node == to && !(apart && s.rw) {
			var way []edge
			for ; s != begin; s = before[s] {
				way = append(way, came[s])
			}
			slices.Reverse(way)
			return way
		}
		for _, e := range g.out[s.node] {
			next := state{e.to, apart && e.kind == rw}
			if e.kind&kinds == 0 || seen[next] || apart && s.rw && e.kind == rw {
				continue
			}
			seen[next], came[next], before[next] = true, e, s
			queue = append(queue, next)
		}
	}
	return nil
}

// components returns the strongly connected components with more than one node, for edges of some kinds (Tarjan).
func (g *graph) components(kinds kind) (out [][]int) {
	const unseen = 0
	index, low, on := make([]int, len(g.out)), make([]int, len(g.out)), make([]bool, len(g.out))
	type frame struct{ node, edge int }
	var stack []int
	count := 0
	for root := range g.out {
		if index[root] != unseen {
			continue
		}
		frames := []frame{{root, 0}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.edge == 0 && index[f.node] == unseen {
				count++
				index[f.node], low[f.node], on[f.node] = count, count, true
				stack = append(stack, f.node)
			}
			if f.edge < len(g.out[f.node]) {
				e := g.out[f.node][f.edge]
				f.edge++
				switch {
				case e.kind&kinds == 0:
				case index[e.to] == unseen:
					frames = append(frames, frame{e.to, 0})
				case on[e.to]:
					low[f.node] = min(low[f.node], index[e.to])
				}
				continue
			}
			done := *f
			if frames = frames[:len(frames)-1]; len(frames) > 0 {
				parent := frames[len(frames)-1].node
				low[parent] = min(low[parent], low[done.node])
			}
			if low[done.node] != index[done.node] {
				continue
			}
			at := slices.Index(stack, done.node)
			part := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, i := range part {
				on[i] = false
			}
			if len(part) > 1 {
				slices.Sort(part)
				out = append(out, part)
			}
		}
	}
	return out
}
