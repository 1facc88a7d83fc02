// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// node is one process and its disk. While it is down host is nil.
type node struct {
	w  *world
	id int
	fs *vfs.MemFS

	log    *raftlog.Store
	store  *ledger.Store
	host   *raftgroup.Host
	writer *raftgroup.LogWriter
	apply  *raftgroup.Applier
	snaps  raftgroup.SnapshotStore

	// life counts starts: what an earlier life had scheduled does nothing.
	life  int
	inbox raftgroup.Inbox
	// stepping, writing, applying say that the step is scheduled.
	stepping, writing, applying bool
	appends                     []raftgroup.Append
	applies                     []raftgroup.Apply

	// rate is how fast the node's clock runs, base what it showed in the beginning.
	rate float64
	base time.Duration
	// shared are the reads that use an answer asked for by an earlier one, by group (Bugs.SharedAnswer); nil is none
	// under way.
	shared map[uint64][]func(raftgroup.Outcome)

	// paused until then; disk latencies are multiplied by slow; full refuses writes.
	paused time.Duration
	slow   int
	full   bool
}

// Now is the node's clock.
func (n *node) Now() raftgroup.Instant {
	return raftgroup.Instant(n.base + time.Duration(float64(n.w.now)*n.rate))
}

func (n *node) options() raftgroup.Options {
	w := n.w
	return raftgroup.Options{
		Node: nodeID(n.id), Tick: tick, ElectionTicks: elections, TruncateEntries: 12, TruncateKeep: 3, UnappliedEntries: 2,
		UnappliedNode: 3,
		Events: raftgroup.Events{
			LeaderChanged: func(group uint64, leader raftgroup.Member, term uint64) {
				if r := n.host.Group(group); r != nil && leader.Replica == r.Replica() {
					w.counts.Leaders++
					w.note("node %d leads group %d in term %d", n.id, group, term)
				}
			},
			SnapshotInstalled: func(group, index uint64) {
				w.counts.Snapshots++
				w.note("node %d installed group %d at %d", n.id, group, index)
			},
			Truncated: func(uint64, uint64) { w.counts.Truncations++ },
			Quiesced: func(_ uint64, quiet bool) {
				if quiet {
					w.counts.Quiesced++
				}
			},
		},
	}
}

// start opens the stores and everything in them.
func (n *node) start() {
	w := n.w
	var err error
	if n.log, err = raftlog.Open("data/log", raftlog.Options{FS: n.fs, MemtableBytes: 512 << 10, GroupCacheBytes: 4 << 10}); err != nil {
		w.fail("node %d: %v", n.id, err)
		return
	}
	if n.store, err = ledger.Open("data/rows", n.fs, 512<<10); err != nil {
		w.fail("node %d: %v", n.id, err)
		return
	}
	n.snaps = n.plantSnapshots(n.store)
	n.writer = raftgroup.NewLogWriter(n.plantLog(n.log.NewBatch()))
	n.apply = raftgroup.NewApplier(n.plantMachine(n.store))
	n.host = raftgroup.NewHost(n.log, n.log.NewBatch(), n.options())
	n.inbox, n.appends, n.applies, n.shared = raftgroup.Inbox{}, nil, nil, map[uint64][]func(raftgroup.Outcome){}
	n.stepping, n.writing, n.applying, n.paused, n.slow, n.full = false, false, false, 0, 1, false
	var configs []raftgroup.GroupConfig
	err = n.store.Metas(func(group uint64, m ledger.Meta) { configs = append(configs, config(group, m)) })
	if err == nil {
		_, err = n.host.Open(configs...)
	}
	if err != nil {
		w.fail("node %d does not start: %v", n.id, err)
		return
	}
	w.note("node %d starts", n.id)
	n.afterLife(w.between(0, tick), n.tick)
}

// config is what a state machine's meta says when a group is opened.
func config(group uint64, m ledger.Meta) raftgroup.GroupConfig {
	where, _, err := raftgroup.DecodeMembers(m.Where)
	if err != nil {
		panic(fmt.Sprintf("group %d: %v", group, err))
	}
	return raftgroup.GroupConfig{
		ID:      group,
		Replica: m.Replica,
		Applied: m.Applied,
		Term:    m.Term,
		Conf:    m.Conf,
		Where:   where,
		Born:    m.Applied == 10,
	}
}

// afterLife schedules something that the end of this life cancels.
func (n *node) afterLife(d time.Duration, do func()) {
	life := n.life
	n.w.after(d, func() {
		if n.life == life && n.host != nil {
			do()
		}
	})
}

func (n *node) tick() {
	n.inbox.Ticks++
	n.kick()
	n.afterLife(time.Duration(float64(tick)/n.rate), n.tick)
}

// deliver is called by the network.
func (n *node) deliver(from int, frame []byte) {
	if n.host == nil {
		return
	}
	f, err := decode(from, frame)
	if err != nil {
		n.w.fail("node %d: frame from node %d: %v", n.id, from, err)
		return
	}
	n.w.plantAnswers(&f)
	n.inbox.Frames = append(n.inbox.Frames, f)
	n.kick()
}

// kick sees to it that the loop runs soon.
func (n *node) kick() {
	if n.host == nil || n.stepping {
		return
	}
	n.stepping = true
	n.afterLife(max(n.w.between(5*time.Microsecond, 50*time.Microsecond), n.paused-n.w.now), n.step)
}

// step runs the loop once and schedules what it wants done.
func (n *node) step() {
	if n.paused > n.w.now {
		n.afterLife(n.paused-n.w.now, n.step)
		return
	}
	n.stepping = false
	in := n.inbox
	n.inbox = raftgroup.Inbox{}
	in.Ticks = min(in.Ticks, 1) // a ticker drops ticks that nobody took
	n.guard(func() error {
		n.takeWork(n.host.Step(n.Now()+n.plantLease()+n.plantAsks(&in), &in))
		return nil
	})
}

func (n *node) takeWork(work raftgroup.Work) {
	for _, f := range work.Frames {
		n.w.net.send(n.id, nodeOf(f.To), n.plantCommits(f.Data))
	}
	n.appends = append(n.appends, work.Appends...)
	n.applies = append(n.applies, work.Applies...)
	n.scheduleWrite()
	n.scheduleApply()
	for _, i := range work.Installs {
		n.afterLife(n.latency(20*time.Millisecond), func() {
			n.guard(func() error {
				done, err := i.Run(n.snaps)
				n.inbox.Installed = append(n.inbox.Installed, done)
				return err
			})
			n.kick()
		})
	}
	for _, d := range work.Discards {
		n.w.counts.Discards++
		if err := d.Close(); err != nil {
			n.w.fail("node %d: %v", n.id, err)
		}
	}
	for _, s := range work.Sends {
		n.afterLife(n.latency(5*time.Millisecond), func() { n.send(s) })
	}
}

// send captures a snapshot when the disk gets to it and hands it to the network.
func (n *node) send(s raftgroup.Send) {
	head, data, err := s.Capture(n.snaps)
	life, over := n.life, false
	done := func(err error) {
		if over {
			return
		}
		over = true
		if err := data.Close(); err != nil {
			n.w.fail("node %d: %v", n.id, err)
		}
		if n.life == life && n.host != nil {
			n.inbox.Shipped = append(n.inbox.Shipped, s.Result(err))
			n.kick()
		}
	}
	if err != nil {
		n.w.fail("node %d: %v", n.id, err)
		return
	}
	n.w.net.sendSnapshot(n.id, nodeOf(s.To), head, data, done)
	n.w.after(4*time.Second, func() { done(errLost) }) // the receiver may have died
}

// receive takes a snapshot: the loop is asked whether it is wanted, then the data come, which takes a while, and then
// the loop hears of it.
func (n *node) receive(from int, stream io.Reader, done func(error)) {
	f, err := raftgroup.ReadHead(nodeID(from), stream)
	if err != nil {
		n.w.fail("node %d: head from node %d: %v", n.id, from, err)
		return
	}
	n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) {
		if err := h.Expect(&f); err != nil {
			n.w.counts.Unwanted++
			done(err)
			return
		}
		n.afterLife(n.latency(20*time.Millisecond), func() { n.takeData(f, stream, done) })
	})
	n.kick()
}

func (n *node) takeData(f raftgroup.Received, stream io.Reader, done func(error)) {
	defer n.kick()
	if n.w.oneIn(15) && !n.w.calm {
		n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) { h.Abandon(&f) })
		done(errLost)
		return
	}
	data, err := n.snaps.Receive(f.Messages[0].Group, stream)
	if err != nil {
		n.w.fail("node %d: %v", n.id, err)
		return
	}
	f.Take(data)
	n.inbox.Frames = append(n.inbox.Frames, f)
	done(nil)
}

// latency draws how long a disk operation takes.
func (n *node) latency(most time.Duration) time.Duration {
	return n.w.between(50*time.Microsecond, most) * time.Duration(n.slow)
}

// scheduleWrite lets the log writer take what is queued. The bytes may reach the disk when the write begins or when it
// ends: a crash between finds either.
func (n *node) scheduleWrite() {
	if n.writing || len(n.appends) == 0 {
		return
	}
	n.writing = true
	if n.w.oneIn(2) {
		logged, frames, ok := n.write()
		if ok {
			n.afterLife(n.latency(4*time.Millisecond), func() { n.wrote(logged, frames) })
		}
		return
	}
	n.afterLife(n.latency(4*time.Millisecond), func() {
		if logged, frames, ok := n.write(); ok {
			n.wrote(logged, frames)
		}
	})
}

func (n *node) write() (logged []raftgroup.Logged, frames [][]byte, ok bool) {
	items := n.appends
	n.appends = nil
	ok = n.guard(func() error {
		var out []raftgroup.Frame
		var err error
		logged, out, err = n.writer.Write(items)
		for _, f := range out {
			frames = append(frames, append([]byte{byte(nodeOf(f.To))}, f.Data...))
		}
		return err
	})
	return logged, frames, ok
}

func (n *node) wrote(logged []raftgroup.Logged, frames [][]byte) {
	n.writing = false
	for _, f := range frames {
		n.w.net.send(n.id, int(f[0]), f[1:])
	}
	n.inbox.Logged = append(n.inbox.Logged, logged...)
	n.kick()
	n.scheduleWrite()
}

func (n *node) scheduleApply() {
	if n.applying || len(n.applies) == 0 {
		return
	}
	n.applying = true
	n.afterLife(n.latency(2*time.Millisecond), func() {
		items := n.applies
		n.applies = nil
		ok := n.guard(func() error {
			done, err := n.apply.Apply(items)
			n.inbox.Applied = append(n.inbox.Applied, done...)
			return err
		})
		if !ok {
			return
		}
		n.applying = false
		n.w.compareStates(n)
		n.kick()
		n.scheduleApply()
	})
}

// errDiskFull is what a full disk answers; the node ends then.
var errDiskFull = errors.New("no space left on device")

// guard runs a step. A full disk ends the process; any other error or panic is a failure of the product.
func (n *node) guard(step func() error) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			n.w.fail("node %d: panic: %v", n.id, r)
			ok = false
		}
	}()
	err := step()
	switch {
	case err == nil:
		return true
	case errors.Is(err, errDiskFull):
		n.w.note("node %d: %v", n.id, err)
		n.crash()
		n.w.after(n.w.between(time.Second, 3*time.Second), n.restart)
	default:
		n.w.fail("node %d: %v", n.id, err)
	}
	return false
}

// crash ends the process. What was not synced is lost, or all of it is kept: the process died and the machine did not.
func (n *node) crash() {
	w := n.w
	w.counts.Crashes++
	if w.plan.Wait != nil {
		w.plan.Wait()
	}
	percent := 0
	if w.oneIn(5) {
		percent = 100
	}
	w.note("node %d crashes, unsynced bytes kept: %d%%", n.id, percent)
	next := n.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(w.plan.Seed, uint64(w.now)))})
	n.life++
	n.close()
	n.fs = next
	w.hist.crashed(n.id)
	w.refuse(n)
}

// refuse has some nodes meet an address that refuses their connections: the process behind it is gone, or it lives and
// a firewall answers.
func (w *world) refuse(gone *node) {
	for _, n := range w.nodes {
		if n == gone || n.host == nil || w.oneIn(3) {
			continue
		}
		n.afterLife(w.between(time.Millisecond, 100*time.Millisecond), func() {
			w.counts.Refused++
			n.inbox.Calls = append(n.inbox.Calls, w.plantRefused(gone))
			n.kick()
		})
	}
}

// depart ends the process in order: what it leads it offers to others, and then it says that it serves nothing any
// more.
func (n *node) depart() {
	w := n.w
	w.counts.Departures++
	w.note("node %d is told to stop", n.id)
	n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) { h.Handover() })
	n.kick()
	n.afterLife(w.between(10*time.Millisecond, 500*time.Millisecond), func() {
		n.crash()
		for _, other := range w.nodes {
			if other != n {
				w.net.depart(n.id, other.id)
			}
		}
		w.after(w.between(50*time.Millisecond, 3*time.Second), n.restart)
	})
}

func (n *node) restart() {
	if n.host == nil && len(n.w.failures) == 0 {
		n.start()
	}
}

func (n *node) close() {
	if n.host == nil && n.log == nil {
		return
	}
	n.host = nil
	_ = errors.Join(n.log.Close(), n.store.Close())
	n.log, n.store = nil, nil
}

// leading returns the node's group if this node leads it.
func (n *node) leading(group uint64) *raftgroup.Group {
	if n.host == nil {
		return nil
	}
	g := n.host.Group(group)
	if g == nil {
		return nil
	}
	if s, ok := n.host.Status(group); !ok || !s.Leading {
		return nil
	}
	return g
}

// begin makes the first nodes and replicas.
func (w *world) begin() {
	for i := range nodeCount {
		n := &node{w: w, id: i, fs: vfs.NewCrashableMem(), slow: 1}
		n.rate = 1 + (w.rng.Float64()-0.5)*0.08
		n.base = w.between(0, time.Hour)
		w.nodes = append(w.nodes, n)
	}
	for group := uint64(1); group <= groupCount; group++ {
		conf := &pb.ConfState{}
		var where []raftgroup.Member
		voters := voterCount
		switch group {
		case 2:
			voters = nodeCount // three of them are a quorum without the leader and one of its followers
		case groupCount:
			voters = 1 // it grows, one by one
		}
		for v := range voters {
			w.replicas++
			conf.Voters = append(conf.Voters, w.replicas)
			where = append(where, raftgroup.Member{Replica: w.replicas, Node: nodeID((int(group) + v) % nodeCount)})
		}
		for _, m := range where {
			n := w.nodes[nodeOf(m.Node)]
			w.create(n, group, ledger.Meta{Replica: m.Replica, Applied: 10, Term: 5, Conf: conf, Where: raftgroup.EncodeMembers(nil, where)})
		}
	}
	for _, n := range w.nodes {
		n.start()
	}
}

// create stores a group's first meta on a node that is down.
func (w *world) create(n *node, group uint64, m ledger.Meta) {
	store, err := ledger.Open("data/rows", n.fs, 512<<10)
	if err == nil {
		err = errors.Join(store.Create(group, m), store.Close())
	}
	if err != nil {
		w.fail("create group %d on node %d: %v", group, n.id, err)
	}
}
