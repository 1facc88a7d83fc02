// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// splitsMax is the maximum number of splits in a run. The simulator compares logs, snapshots, and the ends of
// histories for each partition, so partitions are expensive.
const splitsMax = 8

// splitSomething requests splits from time to time until the calm phase begins. The requesting node may be cut off.
func (w *simulation) splitSomething() {
	if w.Calm || w.counts.Splits >= splitsMax {
		return
	}
	w.After(w.Between(500*time.Millisecond, 4*time.Second), w.splitSomething)
	if n := w.nodes[w.Rand.IntN(nodeCount)]; n.Host != nil && n.keeper != nil {
		n.Spawn(n.orderSplit)
	}
}

// orderSplit requests the split of a partition, as an operator who skips the cool-down would.
func (n *node) orderSplit(*simenv.Task) {
	w := n.w
	var order split.Request
	err := n.update(func(s *meta.State) (*meta.State, error) {
		var ps []*topology.Partition
		for p := range s.Topology.All() {
			if p.ID != topology.MetaPartition && p.Table != w.batches.Table() && !w.ofItself(p.Table) {
				ps = append(ps, p)
			}
		}
		if len(ps) == 0 {
			return s, nil
		}
		p := ps[w.Rand.IntN(len(ps))]
		order = split.Request{Table: p.Table, Partition: p.ID, At: w.splitPoint(p), SkipCooldown: true}
		return order.Apply(s, n.Wall())
	})
	w.Note("node %d: split of partition %d at %v: %v", n.ID, order.Partition, order.At, err)
	if err == nil && order.Partition != 0 {
		w.counts.Splits++
		w.cancelSoon(order.Table, order.Partition)
	}
}

// splitPoint returns the token of a key that clients use, the next token, or any token of the partition.
func (w *simulation) splitPoint(p *topology.Partition) topology.Position {
	key := allKeys[w.Rand.IntN(len(allKeys))]
	at := token.Hash([]byte(key)).Position()
	if w.OneIn(2) {
		at++
	}
	table := tableOf(key)
	if t := w.items.table; t != nil && t.ID == p.Table {
		table, at = t.ID, t.Token(stockBytes(stockKeys[w.Rand.IntN(len(stockKeys))])).Position()+at&1
	}
	if slices.ContainsFunc(w.feeds.tables, func(t *schema.Table) bool { return t.ID == p.Table }) {
		table = p.Table
		at = token.Hash([]byte(loggedKeys[w.Rand.IntN(len(loggedKeys))])).Position() + at&1
	}
	if tokens := p.Span.Tokens(); table != p.Table || !tokens.Contains(token.AtPosition(at)) {
		size := tokens.Limit - tokens.Begin - 1
		at = tokens.Begin + w.Rand.Uint64()%max(size, 1)
	}
	return topology.Position{Ring: at}
}

// divided returns the number of partitions in the newest map that splits have created.
func (w *simulation) divided() (n int) {
	for p := range w.newest().Topology.All() {
		if p.Parent != 0 {
			n++
		}
	}
	return n
}

// checkSplits checks at the end of a run that no split is in progress. It also checks that each table's partitions
// cover the ring without overlaps.
func (w *simulation) checkSplits() {
	m := w.newest().Topology
	if err := m.Validate(); err != nil {
		w.Fail("the map: %v", err)
	}
	for p := range m.All() {
		if p.Split != nil {
			w.Fail("partition %d is still being split at the end", p.ID)
		}
		if p.Merge != nil {
			w.Fail("partition %d is still being merged at the end: %+v", p.ID, *p.Merge)
		}
	}
	for _, n := range w.nodes {
		w.checkSpans(n)
		for _, r := range n.parts.Replicas() {
			p := m.Partition(r.ID())
			if p == nil || p.ID == topology.MetaPartition {
				continue // the old partition receives no more requests
			}
			if r.Frozen() != 0 {
				w.Fail("node %d: partition %d is frozen at the end", n.ID, p.ID)
			}
			if span, epoch := r.Span(); r.Table() != 0 && (epoch != p.Epoch || span.String() != p.Span.String()) {
				w.Fail("node %d: partition %d holds %s at epoch %d, the map has %s at %d", n.ID, p.ID, span, epoch, p.Span,
					p.Epoch)
			}
		}
	}
	w.counts.Divided = w.divided()
	w.counts.Merged, w.counts.CanceledMerges = w.ended(meta.Merge)
	_, w.counts.CanceledSplits = w.ended(meta.Split)
}
