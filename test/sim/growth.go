// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/test/sim/world"
)

// grow is what partitions are allowed in a run before they change by themselves, and how they have changed.
type grow struct {
	// limit is the load above which they split; turn is when the caps of all tables become others.
	limit float64
	turn  time.Duration
	// quiet is for how long neighbours are so before they merge.
	quiet time.Duration
	// version is the newest of the records that was looked at, changed is when partitions got their spans, and cut has
	// those that were split at that. ordered has those that were to split or merge by themselves.
	version      uint64
	changed      map[spanAt]time.Duration
	cut, ordered map[spanAt]bool
	// crowded says that rowsTable is to split by its load and in no other way. A node that leads a part of it is spared
	// until then.
	crowded bool
	spared  *node
	until   time.Duration
}

// spanAt is a partition at an epoch: as long as that stays, so does its span.
type spanAt struct {
	id    topology.PartitionID
	epoch uint64
}

// growDice are of their own: what is drawn here changes nothing else in a run.
func (w *simulation) growDice(what uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.plan.Seed, 0x6707+what))
}

func (w *simulation) beginGrowth() {
	dice := w.growDice(0)
	w.grow = grow{
		limit: 4 + 12*dice.Float64(),
		turn:  time.Duration(dice.Int64N(int64(w.plan.Length))), changed: map[spanAt]time.Duration{},
		quiet: 300*time.Millisecond + time.Duration(dice.Int64N(int64(time.Second))),
		cut:   map[spanAt]bool{}, ordered: map[spanAt]bool{}, crowded: dice.IntN(4) == 0,
	}
	if w.plan.With.Growth && w.grow.crowded {
		begins := 4*time.Second + time.Duration(dice.Int64N(int64(3*time.Second)))
		if dice.IntN(3) > 0 {
			begins = w.plan.Length + time.Second // all is calm
		}
		w.After(begins, w.crowd)
	}
}

// crowdFor is longer than a load has to be above its limits.
const crowdFor = split.HotDuration + 3*time.Second

// crowd has a partition of rowsTable, or one key of it, read often, where it is led: no fault comes there meanwhile,
// for with another leader the load would have to be high for as long again.
func (w *simulation) crowd() {
	dice := w.growDice(1)
	var keys []string
	for _, key := range allKeys {
		if tableOf(key) == rowsTable {
			keys = append(keys, key)
		}
	}
	key := keys[dice.IntN(len(keys))]
	p := w.newest().Topology.Locate(rowsTable, token.Hash([]byte(key)), []byte(key))
	n := w.leaderOf(p.ID)
	if n == nil || n.keeper == nil {
		return
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return !p.Span.Tokens().Contains(token.Hash([]byte(key))) })
	w.Note("partition %d is read often, at node %d", p.ID, n.ID)
	hot := dice.IntN(3) == 0
	w.grow.spared, w.grow.until = n, w.Now+crowdFor
	n.Spawn(func(t *world.Task) {
		c := &client{w: w, n: n, t: t, id: 400, last: map[string]uint64{}}
		for w.Now < w.grow.until && t.Sleep(time.Millisecond+time.Duration(dice.Int64N(int64(80*time.Millisecond)))) {
			read := keys[dice.IntN(len(keys))]
			if hot && dice.IntN(4) > 0 {
				read = key
			}
			c.carryOut(&op{client: c.id, kind: opRead, key: read, called: w.Now})
		}
	})
}

// ofItself reports whether a table's partitions are to change by themselves only.
func (w *simulation) ofItself(table uint32) bool {
	return w.plan.With.Growth && w.grow.crowded && table == rowsTable || w.spends(table)
}

// spares reports whether a node is left alone by faults.
func (w *simulation) spares(n *node) bool { return n == w.grow.spared && w.Now < w.grow.until }

// growthAfter is for how long partitions go on to change by themselves when all is well again.
const growthAfter = 15 * time.Second

// capOf is how many bytes a partition of a table may have: as many as a row or a few have, or more than there are.
func (w *simulation) capOf(table uint32) uint64 {
	clients := table >= rowsTable && table <= smallTable
	if !clients && table < schema.FirstTableID || table == w.batches.Table() || w.Now > w.plan.Length+growthAfter {
		return 0 // a table of the system, or the run comes to its end
	}
	which := 1 + uint64(table)<<1
	if w.Now > w.grow.turn {
		which++
	}
	dice := w.growDice(which)
	if w.spends(table) {
		return 1 << 30
	}
	if dice.IntN(3) == 0 || w.ofItself(table) {
		return 1 << 20
	}
	return 100 + dice.Uint64N(1400)
}

// startGrowth makes what has the node's partitions split and merge by themselves, as package node does.
func (n *node) startGrowth(ctx context.Context) {
	w, s := n.w, n.Scheduler()
	watch := autosplit.New(autosplit.Options{
		Metadata: n.keeper, Replicas: n.parts.Replicas, Store: weighed{n.store.Statistics, n}, SizeLimit: w.capOf,
		LoadLimit: w.grow.limit, IdlePeriod: w.grow.quiet,
		KeyName: func(table uint32, key []byte) string { return fmt.Sprintf("key %q of table %d", key, table) },
		Level:   func() feature.Level { return 0 }, Log: n.log(), Sched: s,
	})
	merger := &autosplit.MergeController{
		Metadata: n.keeper, Rules: merge.Rules{SizeLimit: w.capOf, LoadLimit: w.grow.limit, IdlePeriod: w.grow.quiet,
			NodeHealthy: n.hears},
		IsLeader: n.member.LeadsMeta, Log: n.log(), Level: func() feature.Level { return 0 }, Sched: s,
		LocalCandidates: watch.Candidates, OtherNodes: n.others, FetchCandidates: n.peers.MergeCandidates,
	}
	n.member.LocalCandidates = func() []byte { return merge.AppendCandidates(nil, watch.Candidates()) }
	s.Go(func() { watch.Run(ctx) })
	s.Go(func() { merger.Run(ctx) })
}

// hears reports whether another node answers, or is this one.
func (n *node) hears(id topology.NodeID) bool { return id == n.self() || n.peers.Alive(id) }

// others are the other nodes that answer.
func (n *node) others() (out []topology.NodeID) {
	for _, other := range n.state().Nodes {
		if other.ID != n.self() && n.hears(other.ID) {
			out = append(out, other.ID)
		}
	}
	return out
}

// weighed lets compactions come to rest before it looks at files: they run beside the simulation.
type weighed struct {
	*storage.Statistics
	n *node
}

// Size implements growth.Store.
func (s weighed) Size(span keys.Span, enough uint64) (uint64, error) {
	if wait := s.n.w.Wait; wait != nil {
		wait()
	}
	return s.Statistics.Size(span, enough)
}

// oneToken reports whether a partition between two boundaries has one token.
func oneToken(begin, limit topology.Position) bool {
	return len(begin.Key)+len(limit.Key) == 0 && limit.Ring == begin.Ring+1
}

// seenLate is what clocks differ by, with what it may take until a change is seen here.
const seenLate = 5 * time.Second

// checkMap checks a map that a node goes by, and if it is the newest one, that few partitions change at a time, and
// none of them by itself that has changed just now.
func (w *simulation) checkMap(n *node, s *meta.State) {
	if err := s.Topology.Validate(); err != nil {
		w.Fail("node %d: the map at version %d: %v", n.ID, s.Version, err)
	}
	if s.Version <= w.grow.version {
		return
	}
	w.grow.version = s.Version
	w.watchSteps()
	w.pressMerges()
	splits, merges := 0, 0
	for p := range s.Topology.All() {
		at := spanAt{p.ID, p.Epoch}
		if _, known := w.grow.changed[at]; !known && p.Since != 0 {
			w.grow.changed[at] = w.Now
		}
		if p.Split != nil {
			splits++
			w.checkRest(p, split.Cooldown)
			for _, id := range []topology.PartitionID{p.ID, p.Split.Child} {
				w.grow.cut[spanAt{id, p.Epoch + 1}] = true
			}
		}
		if p.Merge != nil {
			merges++
			rest := w.grow.quiet
			if w.grow.cut[at] {
				rest *= afterSplit
			}
			w.checkRest(p, rest)
		}
	}
	if splits > split.MaxConcurrent || merges > 2*merge.MaxConcurrent {
		w.Fail("%d splits and %d merges are under way at version %d", splits, merges/2, s.Version)
	}
}

// afterSplit is control/merge's: for how many times as long halves of a split rest.
const afterSplit = 12

// checkRest checks that a partition which is to split or merge by itself has rested since its span changed, by clocks
// that were right when that was stamped, which may have been seenLate before it was seen.
func (w *simulation) checkRest(p *topology.Partition, rest time.Duration) {
	at := spanAt{p.ID, p.Epoch}
	if p.Reason == nil || p.Reason.Cause != topology.BySize && p.Reason.Cause != topology.ByLoad &&
		p.Reason.Cause != topology.ByKey || w.grow.ordered[at] {
		return
	}
	w.grow.ordered[at] = true
	switch {
	case p.Split == nil && p.Merge.Left == p.ID:
		w.counts.AutoMerges++
	case p.Split == nil:
	case p.Reason.Cause == topology.BySize:
		w.counts.SizeSplits++
	case p.Reason.Cause == topology.ByKey:
		w.counts.KeySplits++
		if oneToken(p.Span.Begin, p.Split.At) || oneToken(p.Split.At, p.Span.Limit) {
			return // a hot key is apart
		}
	default:
		w.counts.LoadSplits++
	}
	changed, has := w.grow.changed[at]
	wrong := w.LastWrong()
	if has && w.Now-changed < rest-seenLate && (wrong == 0 || wrong+seenLate < changed) {
		w.Fail("partition %d is to change by itself after %v: %+v", p.ID, w.Now-changed, *p.Reason)
	}
}
