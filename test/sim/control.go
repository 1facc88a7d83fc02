// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/world"
)

// lookAfter is the control of a node: it keeps the replicas here as the map wants them, the replica sets that are led here, and, where the
// meta partition is led, what the map wants. Whatever it begins it may have to begin again.
func (n *node) lookAfter(t *world.Task) {
	w := n.w
	if err := n.firstBoot(t); err != nil {
		if !t.Dead() {
			w.Fail("node %d: first replicas: %v", n.ID, err)
		}
		return
	}
	next := w.Now
	for {
		if t.Wait(func() bool {
			return n.wanted > n.state.Version || n.replaced > 0 && n.replaced > n.parts.Member(topology.MetaPartition)
		}, max(next-w.Now, time.Millisecond)) == sched.ErrEnded {
			return
		}
		n.reload(t)
		n.comeBack(t)
		if w.Now >= next {
			n.lookAtMembers(t)
			n.place(t)
			next = w.Now + w.Between(100*time.Millisecond, 300*time.Millisecond)
		}
		if t.Dead() {
			return
		}
	}
}

// firstBoot makes the replicas that the node is born with; those of a new disk are asked for.
func (n *node) firstBoot(t *world.Task) error {
	w := n.w
	version, err := n.parts.Records(func([]byte, []byte) error { return nil })
	if err != nil || version > 0 || n.parts.Replica(topology.MetaPartition) != nil {
		n.wanted = max(n.wanted, version)
		return err
	}
	if n.wipes == 0 && !n.born {
		if err := (&reconcile.Local{Node: n.self(), Host: local{n.parts}}).Make(topology.New(), w.born); err != nil {
			return err
		}
		n.born = true
	}
	return n.joinCluster(t)
}

// local is what reconcile.Local does things to.
type local struct{ *partition.Host }

// Has implements it.
func (l local) Has(id topology.PartitionID) bool { return l.Replica(id) != nil }

// joinCluster has another node add this one to the records, until its place in the meta partition is known.
func (n *node) joinCluster(t *world.Task) error {
	w := n.w
	for {
		if !t.Sleep(w.Between(100*time.Millisecond, 500*time.Millisecond)) {
			return sched.ErrEnded
		}
		to := w.nodes[w.Rand.IntN(nodeCount)]
		if to == n || to.Host == nil {
			continue
		}
		id, answered := topology.ReplicaID(0), false
		w.ask(n, to, func(st *world.Task, reply func(func())) {
			if m := to.metaMember(n.self()); m != 0 {
				reply(func() { id, answered = m, true })
				return
			}
			_ = to.update(st, func(s *meta.State) (*meta.State, error) {
				if s.Version == 0 || s.Node(n.self()) != nil {
					return s, nil
				}
				return s.WithNode(w.record(n, s.Nodes)), nil
			})
			reply(func() { answered = true })
		})
		_ = t.Wait(func() bool { return answered }, 2*time.Second)
		if id != 0 {
			self := n.self()
			w.Note("node %d joins as %x, replica %d of the meta partition", n.ID, self[:2], id)
			return n.parts.Join(topology.MetaPartition, id)
		}
	}
}

func (n *node) metaMember(id topology.NodeID) topology.ReplicaID {
	if p := n.state.Map.Meta(); p != nil {
		if m := p.Sets[0].On(id); m != nil {
			return m.ID
		}
	}
	return 0
}

// record is the node as the records have it.
func (w *simulation) record(n *node, others []*meta.Node) *meta.Node {
	r := &meta.Node{ID: n.self(), Region: region, Zone: fmt.Sprint(n.ID), Levels: feature.Known, Joined: n.Wall()}
	r.Tokens = append(r.Tokens, placement.NextToken(others))
	return r
}

// writeBirth gives the voters of the meta partition the records they are born with.
func (n *node) writeBirth() error {
	w := n.w
	if n.wipes > 0 || n.ID >= voterCount {
		return nil
	}
	b := n.store.NewBatch()
	defer b.Close()
	for _, r := range w.records {
		b.Set(keys.MetaID, r.Key, r.Value)
	}
	b.Set(keys.MetaID, []byte(keys.RecordsVersion), binary.BigEndian.AppendUint64(nil, 1))
	return errors.Join(b.Commit(), n.store.Sync())
}

// firstRecords are those of the first map and nodes.
func (w *simulation) firstRecords() (err error) {
	s := meta.Empty().WithMap(w.born)
	for _, n := range w.nodes {
		s = s.WithNode(w.record(n, s.Nodes))
	}
	w.records, err = meta.Empty().Difference(s)
	return err
}

// snapshot is the map that the node goes by.
func (n *node) snapshot() *topology.Snapshot {
	if n.state.Version == 0 {
		return n.w.born
	}
	return n.state.Map
}

// reload makes the replicas here what the newest records say.
func (n *node) reload(t *world.Task) {
	if t.Wait(func() bool { return !n.reloading }, 0) != nil {
		return
	}
	n.reloading = true
	defer func() { n.reloading = false }()
	if err := n.load(); err != nil && !t.Dead() {
		n.w.Fail("node %d: %v", n.ID, err)
	}
}

// comeBack takes the place that the node has in the meta partition if it was given another one while it was away.
func (n *node) comeBack(t *world.Task) {
	if n.replaced <= n.parts.Member(topology.MetaPartition) || t.Wait(func() bool { return !n.reloading }, 0) != nil {
		return
	}
	n.reloading = true
	defer func() { n.reloading = false }()
	n.w.Note("node %d: replica %d of the meta partition takes the place of %d", n.ID, n.replaced, n.parts.Member(topology.MetaPartition))
	err := n.parts.Drop(topology.MetaPartition)
	if err == nil {
		err = n.parts.Join(topology.MetaPartition, n.replaced)
	}
	if err != nil && !t.Dead() {
		n.w.Fail("node %d: %v", n.ID, err)
	}
}

func (n *node) load() error {
	if n.wanted <= n.state.Version {
		return nil
	}
	old := n.state
	next, err := meta.Load(n.parts.Records)
	if err != nil {
		return err
	}
	n.w.checkRecords(n, next)
	l := &reconcile.Local{Node: n.self(), Host: local{n.parts}}
	if err := l.Make(old.Map, next.Map); err != nil {
		return err
	}
	n.state = next
	return l.Remove(old.Map, next.Map)
}

// lookAtMembers takes a step for each replica set that is led here.
func (n *node) lookAtMembers(t *world.Task) {
	if n.state.Version == 0 {
		return
	}
	for _, r := range n.parts.Replicas() {
		p := n.state.Map.Partition(r.ID())
		if t.Dead() || p == nil || !r.Leading() {
			continue
		}
		s, err := r.Status()
		if err != nil || !r.Leading() {
			continue
		}
		set := &p.Sets[0]
		step := reconcile.Next(set, &s)
		switch {
		case step.Settled != nil:
			_ = n.update(t, func(s *meta.State) (*meta.State, error) {
				m, err := s.Map.Settle(p.ID, set.Region, step.Settled)
				if err != nil || m == s.Map {
					return s, err
				}
				return s.WithMap(m), nil
			})
			n.w.counts.Settled++
		case step.Transfer != 0:
			err := r.Transfer(step.Transfer)
			n.w.Note("node %d: partition %d is to be led by replica %d: %v", n.ID, r.ID(), step.Transfer, err)
		case len(step.Changes) > 0:
			ctx := n.Limit(2 * time.Second)
			err := r.ChangeMembers(ctx, step.Changes)
			n.w.Note("node %d: members of partition %d change: %v, %v", n.ID, r.ID(), step.Changes, err)
			if err == nil {
				n.w.counts.Moves++
			}
		}
	}
}

// place has the map want what placement decides, where the meta partition is led; at first it writes down what there is.
func (n *node) place(t *world.Task) {
	w := n.w
	r := n.parts.Replica(topology.MetaPartition)
	if t.Dead() || r == nil || !r.Leading() {
		return
	}
	view := placement.View{Now: n.Wall(), Down: n.down, HealAfter: healAfter, ChangesMax: 3}
	if n.state.Version == 0 || len(placement.Decide(n.state, view)) == 0 {
		return
	}
	_ = n.update(t, func(s *meta.State) (*meta.State, error) {
		actions := placement.Decide(s, view)
		m, err := placement.Apply(s.Map, actions)
		if err != nil || m == s.Map {
			return s, err
		}
		for _, a := range actions {
			w.Note("node %d: %v", n.ID, a)
		}
		return s.WithMap(m), nil
	})
}

var errUnknown = errors.New("the outcome of the change is not known")

// update changes the records of the cluster, as meta.Keeper does: compute, propose the difference, find out by its mark whether it was made.
func (n *node) update(t *world.Task, f func(*meta.State) (*meta.State, error)) error {
	if err := t.Wait(func() bool { return !n.updating }, 5*time.Second); err != nil {
		return err
	}
	n.updating = true
	defer func() { n.updating = false }()
	for range 8 {
		base := n.state
		next, err := f(base)
		if err != nil || next == base {
			return err
		}
		records, err := base.Difference(next)
		if err != nil || len(records) == 0 {
			return err
		}
		n.marks++
		mark := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(n.Life)), n.marks)
		self := n.self()
		key := "proposal/" + string(self[:])
		change := command.Records{Expect: base.Version, Put: append(records, command.Record{Key: []byte(key), Value: mark})}
		made, err := n.propose(t, base.Version, change, key, string(mark))
		if made || err != nil {
			return err
		}
	}
	return errUnknown
}

// propose reports whether a change was made; an error says that nobody knows.
func (n *node) propose(t *world.Task, base uint64, change command.Records, key, mark string) (made bool, err error) {
	w := n.w
	open := false
	for range 10 {
		version, err := n.change(t, change)
		var conflict *partition.Conflict
		switch {
		case t.Dead():
			return false, errUnknown
		case err == nil:
			w.counts.Updates++
			if t.Wait(func() bool { return n.wanted >= version }, 3*time.Second) == nil {
				n.reload(t)
			}
			return true, nil
		case errors.As(err, &conflict):
			if t.Wait(func() bool { return n.wanted > base }, 3*time.Second) != nil {
				if open {
					return false, errUnknown
				}
				return false, err
			}
		default:
			open = open || !errors.Is(err, errNothing)
			_ = t.Wait(func() bool { return n.wanted > base }, w.Between(20*time.Millisecond, 300*time.Millisecond))
		}
		if now := n.wanted; now > base {
			n.reload(t)
			return !t.Dead() && n.recordOf(key) == mark, nil
		}
	}
	return false, errUnknown
}

func (n *node) recordOf(key string) (value string) {
	_, _ = n.parts.Records(func(k, v []byte) error {
		if string(k) == key {
			value = string(v)
		}
		return nil
	})
	return value
}

// errNothing says that a request did nothing.
var errNothing = errors.New("nothing was done")

// change asks the leader of the meta partition, as far as this node knows it.
func (n *node) change(t *world.Task, c command.Records) (version uint64, err error) {
	w := n.w
	to := w.pick(n, topology.MetaPartition)
	if to == nil {
		return 0, errNothing
	}
	answered := false
	err = errUnknown
	w.ask(n, to, func(st *world.Task, reply func(func())) {
		r := to.parts.Replica(topology.MetaPartition)
		if r == nil {
			reply(func() { err, answered = errNothing, true })
			return
		}
		v, e := r.Change(to.Limit(time.Second), c)
		reply(func() { version, err, answered = v, e, true })
	})
	_ = t.Wait(func() bool { return answered }, 1500*time.Millisecond)
	var not *partition.NotLeader
	switch {
	case errors.As(err, &not):
		n.hints[topology.MetaPartition] = not.Leader
		return 0, errNothing
	case errors.Is(err, errNothing), errors.Is(err, errUnknown):
		delete(n.hints, topology.MetaPartition)
	}
	return version, err
}

// pick chooses the node to ask for a partition: who is believed to lead, else any member.
func (w *simulation) pick(n *node, id topology.PartitionID) *node {
	if to := w.nodeOf(n.hints[id]); to != nil && !w.OneIn(20) {
		return to
	}
	p := n.snapshot().Partition(id)
	if p == nil {
		return nil
	}
	set := p.Sets[0].Replicas
	return w.nodeOf(set[w.Rand.IntN(len(set))].Node)
}

// startSetter counts a setting of the cluster up, again and again: each success is one.
func (n *node) startSetter() {
	w := n.w
	n.Spawn(func(t *world.Task) {
		for t.Sleep(w.Between(200*time.Millisecond, 2*time.Second)) && !w.finished {
			if n.state.Version == 0 {
				continue
			}
			number := 0
			err := n.update(t, func(s *meta.State) (*meta.State, error) {
				number, _ = strconv.Atoi(s.Settings[setting])
				number++
				return s.WithSetting(setting, strconv.Itoa(number)), nil
			})
			switch {
			case err == nil:
				w.counted(n, number)
			default:
				w.hist.uncounted++
			}
			if t.Dead() {
				return
			}
		}
	})
}

// moveSomething asks for a replica somewhere else, as an operator would; the ring may want it back later.
func (n *node) moveSomething(t *world.Task) {
	w := n.w
	err := n.update(t, func(s *meta.State) (*meta.State, error) {
		var ps []*topology.Partition
		for p := range s.Map.All() {
			if p.ID != topology.MetaPartition && p.Sets[0].Count(topology.Voter) == len(p.Sets[0].Replicas) && len(p.Sets[0].Replicas) == voterCount {
				ps = append(ps, p)
			}
		}
		if len(ps) == 0 {
			return s, nil
		}
		p := ps[w.Rand.IntN(len(ps))]
		set := p.Sets[0].Replicas
		for _, other := range s.Nodes {
			if p.Sets[0].On(other.ID) == nil && w.nodeOf(other.ID) != nil {
				a := placement.Action{Partition: p.ID, Region: region, Steps: []placement.Step{
					{Kind: placement.Add, Node: other.ID}, {Kind: placement.Go, Replica: set[w.Rand.IntN(len(set))].ID},
				}}
				m, err := a.Apply(s.Map)
				if err != nil {
					return s, err
				}
				w.Note("node %d: asked for: %v", n.ID, a)
				return s.WithMap(m), nil
			}
		}
		return s, nil
	})
	if err != nil {
		w.Note("node %d: a move was not asked for: %v", n.ID, err)
	}
}

// giveUp says that a node will not come back.
func (n *node) giveUp(t *world.Task, gone topology.NodeID) {
	_ = n.update(t, func(s *meta.State) (*meta.State, error) {
		old := s.Node(gone)
		if old == nil || old.State != meta.Up {
			return s, nil
		}
		leaving := *old
		leaving.State = meta.Leaving
		return s.WithNode(&leaving), nil
	})
}

// whole reports whether all replica sets have their voters, all of them on disks that are there, as a node's map has it.
func (n *node) whole() bool {
	w := n.w
	if n.state.Version == 0 {
		return false
	}
	for p := range n.state.Map.All() {
		set := p.Sets[0].Replicas
		voters := 0
		for i := range set {
			if w.nodeOf(set[i].Node) == nil || set[i].State == topology.Joining || set[i].State == topology.Leaving {
				return false
			}
			if set[i].State == topology.Voter {
				voters++
			}
		}
		if voters < voterCount {
			return false
		}
	}
	return true
}

// stop ends the process as an administrator does: it gives its leaderships away before, and takes none that is offered from then on.
func (n *node) stop() {
	w := n.w
	n.AfterLife(w.Between(300*time.Millisecond, 1500*time.Millisecond), func() {
		n.crash()
		w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
	})
	n.Inbox.Calls = append(n.Inbox.Calls, func(h *raftgroup.Host) { w.Note("node %d hands everything over, %d groups", n.ID, h.Handover()) })
	n.Kick()
}

// partitions are the ids of a map in order.
func partitions(m *topology.Snapshot) (ids []topology.PartitionID) {
	for p := range m.All() {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids
}
