// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// grow holds the limits for automatic splits in a run, and the automatic changes so far.
type grow struct {
	// limit is the load above which a partition splits. turn is the time at which the size limits of all tables
	// change.
	limit float64
	turn  time.Duration
	// quiet is the idle period after which neighbors merge.
	quiet time.Duration
	// version is the newest metadata version that was checked. changed holds the time at which each partition got its
	// token range. cut holds the partitions whose last change was a split. ordered holds the partitions for which an
	// automatic split or merge was requested.
	version      uint64
	changed      map[spanAt]time.Duration
	cut, ordered map[spanAt]bool
	// crowded is set after the clients have loaded rowsTable, which may split only by load. Until then, faults spare
	// the nodes that lead a partition of the table.
	crowded bool
	spared  *node
	until   time.Duration
}

// spanAt identifies a partition at an epoch. The token range of a partition is constant within an epoch.
type spanAt struct {
	id    topology.PartitionID
	epoch uint64
}

// growDice returns a separate random source, so that its draws do not change the rest of a run.
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
			begins = w.plan.Length + time.Second // the faults have ended
		}
		w.After(begins, w.crowd)
	}
}

// crowdFor is longer than the time for which a load must exceed its limit before a partition splits.
const crowdFor = split.HotDuration + 3*time.Second

// crowd sends many reads to a partition of rowsTable, or to one of its keys, at the leader. No fault affects the leader
// during that time, because a new leader would have to measure the load from the start.
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
	n.Spawn(func(t *simenv.Task) {
		c := &client{w: w, n: n, t: t, id: 400, last: map[string]uint64{}}
		for w.Now < w.grow.until && t.Sleep(time.Millisecond+time.Duration(dice.Int64N(int64(80*time.Millisecond)))) {
			read := keys[dice.IntN(len(keys))]
			if hot && dice.IntN(4) > 0 {
				read = key
			}
			c.execute(&op{client: c.id, kind: opRead, key: read, called: w.Now})
		}
	})
}

// ofItself reports whether the partitions of a table change only automatically.
func (w *simulation) ofItself(table uint32) bool {
	return w.plan.With.Growth && w.grow.crowded && table == rowsTable || w.spends(table)
}

// spares reports whether faults must skip a node.
func (w *simulation) spares(n *node) bool { return n == w.grow.spared && w.Now < w.grow.until }

// growthAfter is the time during which automatic changes continue after the faults have ended.
const growthAfter = 15 * time.Second

// growthLimits implements the size limits of tables and the descriptions of their logical partitions.
type growthLimits struct{ w *simulation }

// Describe implements the names of package autosplit.
func (growthLimits) Describe(table uint32, key []byte) string {
	return fmt.Sprintf("key %q of table %d", key, table)
}

// MergeSizeLimit implements autosplit.Limits.
func (l growthLimits) MergeSizeLimit(table uint32) uint64 { return l.SizeLimit(table) }

// SizeLimit returns the size limit of a table's partitions in bytes. The limit is the size of a few rows, or it
// exceeds the table's size.
func (l growthLimits) SizeLimit(table uint32) uint64 {
	w := l.w
	clients := table >= rowsTable && table <= smallTable
	if !clients && table < schema.FirstTableID || table == w.batches.Table() || w.Now > w.plan.Length+growthAfter {
		return 0 // a system table, or the end of the run
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

// startGrowth starts the automatic splits and merges of the node, as package node does.
func (n *node) startGrowth(ctx context.Context) {
	w, s := n.w, n.Scheduler()
	watch := autosplit.New(autosplit.Options{
		Metadata: n.keeper, Host: n.parts, Store: weighed{n.store.Statistics, n}, Limits: growthLimits{w},
		Names:     growthLimits{w},
		LoadLimit: w.grow.limit, IdlePeriod: w.grow.quiet, Member: n.member, Log: n.log(), Sched: s,
	})
	merger := autosplit.NewMergeController(watch,
		clusterquery.NewClient(n.self(), n.keeper, n.peers, rpc.Client{Caller: n.fakeTransport, Sched: s}))
	watch.Register(n.calls)
	s.Go(func() { watch.Run(ctx) })
	s.Go(func() { merger.Run(ctx) })
}

// weighed waits for compactions before it reads file sizes, because compactions run concurrently with the simulation.
type weighed struct {
	*storage.Statistics
	n *node
}

// Size implements the store interface of package autosplit.
func (s weighed) Size(span keys.Span, enough uint64) (uint64, error) {
	if wait := s.n.w.Wait; wait != nil {
		wait()
	}
	return s.Statistics.Size(span, enough)
}

// oneToken reports whether the range between two boundaries contains one token.
func oneToken(begin, limit topology.Position) bool {
	return len(begin.Key)+len(limit.Key) == 0 && limit.Ring == begin.Ring+1
}

// seenLate is the maximum clock difference plus the maximum delay of a metadata change.
const seenLate = 5 * time.Second

// checkMap checks a partition map that a node uses. In the newest map, only a few partitions may be changing at the
// same time, and no recently changed partition may be changing automatically.
func (w *simulation) checkMap(n *node, s *meta.State) {
	if err := s.Topology.Validate(); err != nil {
		w.Fail("node %d: the map at version %d: %v", n.ID, s.Version, err)
	}
	if s.Version <= w.grow.version {
		return
	}
	w.grow.version = s.Version
	w.watchSteps()
	w.stressMerges()
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
		w.Fail("%d splits and %d merges are in progress at version %d", splits, merges/2, s.Version)
	}
}

// afterSplit is the factor by which package merge extends the idle period of the halves of a split.
const afterSplit = 12

// checkRest checks that a partition waits after a change before it splits or merges automatically. The time of the
// change comes from a correct clock. It may be up to seenLate earlier than the time at which the node received the
// change.
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
			return // a hot key is exempt
		}
	default:
		w.counts.LoadSplits++
	}
	changed, has := w.grow.changed[at]
	wrong := w.LastWrong()
	if has && w.Now-changed < rest-seenLate && (wrong == 0 || wrong+seenLate < changed) {
		w.Fail("partition %d changes automatically after only %v: %+v", p.ID, w.Now-changed, *p.Reason)
	}
}
