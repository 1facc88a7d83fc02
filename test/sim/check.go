// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// clientHistory holds the operations of all clients and their results.
type clientHistory struct {
	ops    []*op
	values uint64
	last   []*op // operations of the final reads
	txns   []*txn
	// floors maps the key of each counter to the counter's known values in chronological order.
	floors map[string][]floor
	// settings holds the cluster setting at each metadata version. The next field holds the numbers of the
	// acknowledged increments.
	settings map[uint64]string
	counted  map[int]int
	// alterations holds the schema changes that were requested.
	alterations []*alteration
}

// floor records that a client had read a value of a counter by a given time.
type floor struct {
	at    time.Duration
	value uint64
}

func (h *clientHistory) newValue() uint64 { h.values++; return h.values }

func (h *clientHistory) add(o *op) {
	o.id = len(h.ops)
	h.ops = append(h.ops, o)
}

// drop removes an operation that was never executed and will never be executed.
func (h *clientHistory) drop(o *op) { h.ops[o.id] = nil }

// reached records the counter value that an operation set or read.
func (w *simulation) reached(o *op) {
	if !slices.Contains(counters, o.key) || o.blind {
		return
	}
	if w.hist.floors == nil {
		w.hist.floors = map[string][]floor{}
	}
	list := w.hist.floors[o.key]
	if len(list) == 0 || list[len(list)-1].value < o.value {
		w.hist.floors[o.key] = append(list, floor{w.Now, o.value})
	}
}

// checkAge checks that a counter read from a follower is not older than allowed. The read must include every increment
// that was known at the start of the allowed interval.
func (w *simulation) checkAge(n *node, key string, value uint64, at, allowed time.Duration) {
	list := w.hist.floors[key]
	i := sort.Search(len(list), func(i int) bool { return list[i].at >= at-allowed })
	if i > 0 && list[i-1].value > value {
		w.Fail("node %d: local read of %s returned %d; it was already %d at %v", n.ID, key, value, list[i-1].value, list[i-1].at)
	}
}

// stampAhead is the maximum time by which a leader's timestamp may be in the future. It is the product's clock
// tolerance plus the drift of correct clocks.
const stampAhead = 2500 * time.Millisecond

// checkStamp checks that no row has a timestamp from a wrong clock, because such a timestamp would hide all later
// writes.
func (c *client) checkStamp(o *op) {
	if ahead := time.UnixMicro(o.stamp).Sub(c.w.Time()); o.stamp != 0 && ahead > stampAhead {
		c.w.Fail("key %s: its row has a timestamp %v ahead of the time", o.key, ahead)
	}
}

// checkRecords checks that all nodes see the same history of the metadata.
func (w *simulation) checkRecords(n *node, old, s *meta.State) {
	if w.hist.settings == nil {
		w.hist.settings = map[uint64]string{}
	}
	was, ok := w.hist.settings[s.Version]
	if !ok {
		w.hist.settings[s.Version] = s.Settings[setting]
	} else if was != s.Settings[setting] {
		w.Fail("node %d: at version %d the setting is %q; another node has %q", n.ID, s.Version, s.Settings[setting],
			was)
	}
	if s.Version < old.Version {
		w.Fail("node %d: the metadata went back from version %d to %d", n.ID, old.Version, s.Version)
	}
	if s.Topology != old.Topology {
		w.checkMap(n, s)
	}
}

// counted records the number of an acknowledged increment.
func (w *simulation) counted(n *node, number int) {
	if w.hist.counted == nil {
		w.hist.counted = map[int]int{}
	}
	if first, ok := w.hist.counted[number]; ok {
		w.Fail("nodes %d and %d have both counted up to %d: a metadata change is lost", first, n.ID, number)
	}
	w.hist.counted[number] = n.ID
	w.Note("node %d counts %d", n.ID, number)
}

// sentRequest and response are the input and output that porcupine checks.
type sentRequest struct {
	kind       opKind
	value, old uint64
	stamp      int64
}

type response struct {
	value          uint64
	stamp          int64
	applied, blind bool
	unknown        bool
}

type cell struct {
	value uint64
	stamp int64
	// open is set if the actual timestamp may be higher.
	open bool
}

// register models a key whose writes get their timestamps from leaders. The write with the later log entry wins. An
// operation with an unknown outcome accepts any response.
var register = porcupine.Model{
	Init: func() any { return cell{} },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(cell), in.(sentRequest), out.(response)
		switch i.kind {
		case opWrite:
			return true, cell{value: i.value}
		case opDelete, opTruncate:
			return true, cell{}
		case opAdd:
			return o.unknown || o.blind || o.value == s.value+1, cell{value: s.value + 1}
		case opSwap:
			switch {
			case o.unknown && s.value != i.old:
				return true, s
			case o.unknown || o.applied:
				return s.value == i.old, cell{value: i.value}
			}
			return s.value == i.old, s // old is the value before the operation
		case opFind:
			return o.unknown || o.applied == (s.value == i.old), s
		default:
			return o.unknown || o.value == s.value, s
		}
	},
	DescribeOperation: describe,
}

// highest models a key whose writes get their timestamps from clients. The highest timestamp wins, regardless of the
// order of the writes.
var highest = porcupine.Model{
	Init: func() any { return cell{} },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(cell), in.(sentRequest), out.(response)
		if i.kind == opStamped {
			if i.stamp > s.stamp || i.stamp == s.stamp && i.value > s.value {
				s = cell{value: i.value, stamp: i.stamp}
			}
			return true, s
		}
		return o.unknown || o.value == s.value && o.stamp == s.stamp, s
	},
	DescribeOperation: describe,
}

// visible models a key with conditional writes whose other writes get their timestamps from clients. The highest
// timestamp wins. The write of an applied condition is visible because its timestamp exceeds the timestamps that the
// condition read. The timestamp of a value is known only if a client has read the value. A value with an unknown
// timestamp may hide a later write.
var visible = porcupine.NondeterministicModel{
	Init: func() []any { return []any{cell{}} },
	Step: func(state, in, out any) []any {
		s, i, o := state.(cell), in.(sentRequest), out.(response)
		switch i.kind {
		case opStamped:
			next := cell{value: i.value, stamp: i.stamp}
			switch {
			case i.stamp < s.stamp || i.stamp == s.stamp && i.value < s.value:
				return []any{s}
			case s.open:
				return []any{s, next}
			}
			return []any{next}
		case opSwap:
			switch {
			case !o.unknown && !o.applied || o.unknown && s.value != i.old:
				if o.unknown || s.value == i.old { // old is the value before the operation
					return []any{s}
				}
				return nil
			case s.value != i.old, i.stamp != 0 && i.stamp <= s.stamp:
				return nil
			case i.stamp != 0:
				return []any{cell{value: i.value, stamp: i.stamp}}
			}
			return []any{cell{value: i.value, stamp: s.stamp + 1, open: true}}
		}
		if o.unknown || o.value == s.value && o.stamp == s.stamp {
			return []any{s}
		}
		return nil
	},
	DescribeOperation: describe,
}

func describe(in, out any) string { return fmt.Sprintf("%+v -> %+v", in.(sentRequest), out.(response)) }

// stepsMax bounds the steps of one check. A history with many operations of unknown outcome can exceed this limit. A
// timeout would not end such a check, because virtual time does not advance during the check.
const stepsMax = 4_000_000

// checkOperations checks the history of a key. It returns porcupine.Unknown if the check needs too many steps.
func checkOperations(model porcupine.Model, ops []porcupine.Operation) porcupine.CheckResult {
	var steps atomic.Int64
	step := model.Step
	model.Step = func(state, input, output any) (bool, any) {
		if steps.Add(1) > stepsMax {
			return false, state
		}
		return step(state, input, output)
	}
	result := porcupine.CheckOperationsTimeout(model, ops, 0)
	if steps.Load() > stepsMax {
		return porcupine.Unknown
	}
	return result
}

// checkHistories checks every key. It returns the number of checks that needed too many steps.
func (w *simulation) checkHistories() (unchecked int) {
	byKey := map[string][]*op{}
	for _, o := range w.hist.ops {
		switch {
		case o == nil || !o.done && (o.kind == opRead || o.kind == opFind):
		case o.kind == opTruncate && slices.Contains(wiped, o.key):
			for _, key := range wiped {
				byKey[key] = append(byKey[key], o)
			}
		default:
			byKey[o.key] = append(byKey[o.key], o)
		}
	}
	for _, o := range w.hist.last {
		if !o.done {
			w.Fail("the final read of %s failed", o.key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byKey)) {
		ops := operations(byKey[name])
		model := register
		switch {
		case slices.Contains(stamped, name):
			model = highest
		case slices.Contains(mixed, name):
			model = visible.ToModel()
			stampSwaps(byKey[name])
			ops = operations(byKey[name])
		}
		switch checkOperations(model, ops) {
		case porcupine.Illegal:
			w.Fail("key %s is not linearizable (%d operations)", name, len(ops))
			if w.plan.Print != nil {
				for _, o := range byKey[name] {
					w.plan.Print(o.String())
				}
			}
		case porcupine.Unknown:
			unchecked++
		}
	}
	return unchecked
}

// stampSwaps sets the timestamp of each swap to the timestamp that a client read with its value.
func stampSwaps(ops []*op) {
	stamps := map[uint64]int64{}
	for _, o := range ops {
		if o.done && o.kind == opRead {
			stamps[o.value] = o.stamp
		}
	}
	for _, o := range ops {
		if o.kind == opSwap {
			o.stamp = stamps[o.value]
		}
	}
}

// operations returns the operations to check. An operation is omitted if its outcome is unknown and no client has seen
// its value. The operation is kept if a search has not found a value, because the operation may be the reason.
func operations(ops []*op) []porcupine.Operation {
	seen, missed := map[uint64]bool{}, false
	for _, o := range ops {
		if o.done {
			seen[o.value], seen[o.old] = true, true
			missed = missed || o.kind == opFind && !o.applied
		}
	}
	var out []porcupine.Operation
	for _, o := range ops {
		if !o.done && o.value != 0 && !seen[o.value] && !missed {
			continue
		}
		end := int64(math.MaxInt64)
		if o.done {
			end = int64(o.ended)
		}
		out = append(out, porcupine.Operation{
			ClientId: o.client, Input: sentRequest{o.kind, o.value, o.old, o.stamp}, Call: int64(o.called),
			Output: response{o.value, o.stamp, o.applied, o.blind, !o.done}, Return: end,
		})
	}
	return out
}

// compareStates compares a node's partitions with all replicas that have the same applied index. It also checks that
// no two partitions overlap.
func (w *simulation) compareStates(n *node) {
	if !w.OneIn(24) || n.store == nil {
		return
	}
	all := n.parts.IDs()
	if len(all) == 0 {
		return
	}
	p := all[w.Rand.IntN(len(all))]
	if n.parts.TableOf(p) >= schema.FirstTableID && p != topology.MetaPartition {
		return // values of a dropped column are compared at the end
	}
	id := uint64(p)
	m, ok, err := n.store.Meta(id)
	if err != nil || !ok || m.Applied == 0 {
		return
	}
	applied, hash, err := n.store.HashPartition(id)
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return
	}
	// A split or merge changes the state before the applied index includes the log entry.
	at := stateAt{id, applied, m.Epoch, m.Frozen}
	if first, ok := w.hashes[at]; !ok {
		w.hashes[at] = hash
	} else if first != hash {
		w.Fail("partition %d at %d: node %d holds %016x, another replica %016x", id, applied, n.ID, hash, first)
	} else {
		w.counts.Compared++
	}
	w.checkSpans(n)
}

// checkSpans checks that no two partitions on a disk overlap.
func (w *simulation) checkSpans(n *node) {
	var metas []keys.Meta
	err := n.store.Metas(func(m keys.Meta) error {
		metas = append(metas, m)
		return nil
	})
	for i := range metas {
		a, e := topology.SpanOf(metas[i].Span)
		if e != nil {
			err = e
		}
		for j := range i {
			if b, _ := topology.SpanOf(metas[j].Span); metas[i].Span.Table == metas[j].Span.Table && a.Overlaps(b) {
				w.Fail("node %d: partitions %d and %d overlap", n.ID, metas[i].Partition, metas[j].Partition)
			}
		}
	}
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
	}
}

// atRest reports whether no split, merge, or move is in progress and all existing replicas of each partition have
// applied the same index.
func (w *simulation) atRest() bool {
	for p := range w.newest().Topology.InMotion() {
		if p.Split != nil || p.Merge != nil || !p.AtRest() {
			return false
		}
	}
	for _, id := range partitions(w.newest().Topology) {
		leader := w.leaderOf(id)
		if leader == nil {
			return false
		}
		s, _ := leader.Host.Status(uint64(id))
		for _, n := range w.nodes {
			if m, ok, err := n.store.Meta(uint64(id)); err == nil && ok && m.Applied != s.Applied {
				return false
			}
		}
	}
	return true
}

// checkConverged checks that all members of a replica set end with the same applied index and the same state. It also
// checks that the metadata contains every acknowledged increment.
func (w *simulation) checkConverged() {
	for _, id := range partitions(w.newest().Topology) {
		leader := w.leaderOf(id)
		if leader == nil {
			w.Fail("partition %d has no leader at the end", id)
			continue
		}
		s, _ := leader.Host.Status(uint64(id))
		_, want, err := leader.store.HashPartition(uint64(id))
		if err != nil {
			w.Fail("node %d: %v", leader.ID, err)
		}
		members := append(append([]uint64{}, s.Members.GetVoters()...), s.Members.GetLearners()...)
		members = slices.DeleteFunc(members, func(replica uint64) bool { // the disk of this replica is lost
			m := leader.snapshot().Partition(id).Sets[0].Member(topology.ReplicaID(replica))
			return m != nil && w.nodeOf(m.Node) == nil
		})
		found := 0
		for _, n := range w.nodes {
			g := n.Host.Group(uint64(id))
			if g == nil || !slices.Contains(members, g.Replica()) {
				continue
			}
			found++
			applied, hash, err := n.store.HashPartition(uint64(id))
			if err != nil || hash != want || applied != s.Applied {
				w.Fail("partition %d: node %d applied %d hash %016x, leader applied %d hash %016x (%v)", id, n.ID,
					applied, hash, s.Applied, want, err)
			}
		}
		if found != len(members) {
			w.Fail("partition %d: %d of %d members found: %v", id, found, len(members), s.Members)
		}
		if len(s.Members.GetVoters()) < voterCount {
			w.Fail("partition %d has %d voters at the end", id, len(s.Members.GetVoters()))
		}
		w.Note("partition %d converged at %d: %016x", id, s.Applied, want)
	}
	w.checkRegions()
	w.checkSplits()
	w.checkSpending()
	w.checkCount()
	w.checkSchema()
	if len(w.Failures) > 0 {
		for _, n := range w.nodes {
			w.Note("node %d: records at %d, making %v", n.ID, n.state().Version, n.making)
			for p := range n.snapshot().All() {
				w.Note("  partition %d: here %d, wanted %v", p.ID, n.parts.Member(p.ID), p.Sets[0].Replicas)
			}
		}
	}
}

func (w *simulation) checkCount() {
	newest := w.newest()
	n, _ := strconv.Atoi(newest.Settings[setting])
	most := 0
	for number := range w.hist.counted {
		most = max(most, number)
	}
	if n < most || n < len(w.hist.counted) {
		w.Fail("the final setting is %d; %d increments were acknowledged, the highest is %d", n, len(w.hist.counted), most)
	}
}
