// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// node is a machine, its disk and the process on it. While that is down host is nil.
type node struct {
	w  *world
	id int
	// wipes counts disks: each is a new node to the others.
	wipes byte
	fs    *vfs.MemFS

	log    *raftlog.Store
	store  *storage.Store
	parts  *partition.Host
	host   *raftgroup.Host
	writer *raftgroup.LogWriter
	apply  *raftgroup.Applier
	snaps  raftgroup.SnapshotStore

	// life counts starts: what an earlier life had scheduled does nothing.
	life  int
	tasks []*task
	inbox raftgroup.Inbox
	// stepping, writing, applying say that the step is scheduled.
	stepping, writing, applying bool
	appends                     []raftgroup.Append
	applies                     []raftgroup.Apply

	// state is the newest one that was loaded of the cluster's records, wanted the version that they are known to have reached.
	state    *meta.State
	wanted   uint64
	replaced topology.ReplicaID
	// born says that the first replicas were made.
	born  bool
	marks uint64
	// updating and reloading say that a task does it.
	updating, reloading bool
	// hints are the nodes that are believed to lead, down those that are silent, and since when. seen is what a reader here may rely on.
	hints map[topology.PartitionID]topology.NodeID
	down  map[topology.NodeID]time.Time
	seen  map[seenAt]uint64

	// rate is how fast the node's clocks run, base what the monotone one showed in the beginning, skew how far the wall clock is off.
	rate       float64
	base, skew time.Duration
	// paused until then; disk latencies are multiplied by slow; full refuses writes.
	paused time.Duration
	slow   int
	full   bool
}

type seenAt struct {
	replica topology.ReplicaID
	key     string
}

// self is the node's identity, which is on its disk.
func (n *node) self() (id topology.NodeID) {
	id[0], id[1] = byte(n.id+1), n.wipes
	return id
}

// nodeOf returns the machine of an identity, and nil if it is on its disk no more.
func (w *world) nodeOf(id topology.NodeID) *node {
	if id[0] == 0 {
		return nil
	}
	if n := w.nodes[id[0]-1]; n.self() == id {
		return n
	}
	return nil
}

// Now is the node's monotone clock.
func (n *node) Now() raftgroup.Instant {
	return raftgroup.Instant(n.base + time.Duration(float64(n.w.now)*n.rate))
}

// epoch is where wall clocks begin.
var epoch = time.Unix(1_700_000_000, 0)

// wall is the node's wall clock.
func (n *node) wall() time.Time {
	return epoch.Add(n.skew + time.Duration(float64(n.w.now)*n.rate))
}

func (n *node) options() partition.Options {
	w, life := n.w, n.life
	return partition.Options{
		Now: n.wall,
		Cluster: &partition.Cluster{
			Node: n.self(), Log: n.log, Clock: n,
			Drive:          &partition.Drive{Runner: n.runner, Scheduler: sched.Driven(process{n, n.life})},
			RecordsChanged: func(version uint64) { n.wanted = max(n.wanted, version) },
			Replaced:       func(r topology.ReplicaID) { n.replaced = max(n.replaced, r) },
			LeaderChanged: func(id topology.PartitionID, leader topology.NodeID, here bool) {
				n.hints[id] = leader
				if here {
					w.counts.Leaders++
					w.note("node %d leads partition %d", n.id, id)
				}
			},
			Raft: raftgroup.Options{
				Tick: tick, ElectionTicks: elections, TruncateEntries: 14, TruncateKeep: 4, UnappliedEntries: 2,
				Events: raftgroup.Events{
					SnapshotInstalled: func(group, index uint64) {
						w.counts.Snapshots++
						w.note("node %d installed partition %d at %d", n.id, group, index)
					},
					Truncated: func(uint64, uint64) { w.counts.Truncations++ },
					Quiesced: func(_ uint64, quiet bool) {
						if quiet {
							w.counts.Quiesced++
						}
					},
					PeerDown: func(peer raftgroup.NodeID, down bool) {
						if n.life != life {
							return
						}
						if down {
							n.down[topology.NodeID(peer)] = n.wall()
						} else {
							delete(n.down, topology.NodeID(peer))
						}
					},
				},
			},
		},
	}
}

// start opens the stores and everything in them.
func (n *node) start() {
	w := n.w
	n.inbox, n.appends, n.applies = raftgroup.Inbox{}, nil, nil
	n.stepping, n.writing, n.applying, n.paused, n.slow, n.full, n.updating, n.reloading = false, false, false, 0, 1, false, false, false
	n.wanted, n.replaced, n.state = 0, 0, meta.Empty()
	n.hints, n.down, n.seen = map[topology.PartitionID]topology.NodeID{}, map[topology.NodeID]time.Time{}, map[seenAt]uint64{}
	err := n.open()
	if err != nil {
		w.fail("node %d does not start: %v", n.id, err)
		return
	}
	w.note("node %d starts", n.id)
	n.afterLife(w.between(0, tick), n.tick)
	w.spawn(n, n.lookAfter)
	n.startClients()
}

func (n *node) open() (err error) {
	if n.log, err = raftlog.Open("data/log", raftlog.Options{FS: n.fs, MemtableBytes: 512 << 10, GroupCacheBytes: 4 << 10}); err != nil {
		return err
	}
	n.store, err = storage.Open(n.fs, "data/rows", storage.Options{
		Identity:   storage.Identity{Cluster: [16]byte{1}, Node: n.self()},
		CacheBytes: 1 << 20, MemtableBytes: 512 << 10, MinFreeDisk: -1, DeadRunBytes: -1,
	})
	if err != nil {
		return err
	}
	for _, table := range []uint32{rowsTable, wipedTable, smallTable} {
		n.store.InstallTable(storage.Table{ID: table})
	}
	if n.life == 0 {
		if err := n.writeBirth(); err != nil {
			return err
		}
	}
	if err := n.plantMetas(); err != nil {
		return err
	}
	n.parts, err = partition.Open(partition.Stored{Store: n.store}, n.options())
	return err
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
func (n *node) deliver(from topology.NodeID, frame []byte) {
	if n.host == nil {
		return
	}
	f, err := raftgroup.DecodeFrame(raftgroup.NodeID(from), frame)
	if err != nil {
		n.w.fail("node %d: frame from node %x: %v", n.id, from[:2], err)
		return
	}
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
		n.takeWork(n.host.Step(n.Now()+n.plantLease(), &in))
		return nil
	})
}

func (n *node) takeWork(work raftgroup.Work) {
	for _, f := range work.Frames {
		n.w.net.send(n, topology.NodeID(f.To), f.Data)
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
	if err != nil {
		n.w.fail("node %d: %v", n.id, err)
		return
	}
	life, over := n.life, false
	done := func(err error) {
		if over || n.life != life || n.host == nil {
			return
		}
		over = true
		if err := data.Close(); err != nil {
			n.w.fail("node %d: %v", n.id, err)
		}
		n.inbox.Shipped = append(n.inbox.Shipped, s.Result(err))
		n.kick()
	}
	n.w.net.sendSnapshot(n, topology.NodeID(s.To), head, data, done)
	n.w.after(4*time.Second, func() { done(errLost) }) // the receiver may have died
}

// receive takes a snapshot: the loop is asked whether it is wanted, then the data come, which takes a while, and then the loop hears of
// it.
func (n *node) receive(from topology.NodeID, stream io.Reader, done func(error)) {
	f, err := raftgroup.ReadHead(raftgroup.NodeID(from), stream)
	if err != nil {
		n.w.fail("node %d: head from node %x: %v", n.id, from[:2], err)
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
		// A replica that is being removed may take the place of what came: whoever sent it tries again.
		n.w.note("node %d: %v", n.id, err)
		n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) { h.Abandon(&f) })
		done(err)
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

// scheduleWrite lets the log writer take what is queued. The bytes may reach the disk when the write begins or when it ends: a crash
// between finds either.
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

func (n *node) write() (logged []raftgroup.Logged, frames []raftgroup.Frame, ok bool) {
	items := n.appends
	n.appends = nil
	ok = n.guard(func() error {
		var out []raftgroup.Frame
		var err error
		logged, out, err = n.writer.Write(items)
		for _, f := range out {
			frames = append(frames, raftgroup.Frame{To: f.To, Data: append([]byte(nil), f.Data...)})
		}
		return err
	})
	return logged, frames, ok
}

func (n *node) wrote(logged []raftgroup.Logged, frames []raftgroup.Frame) {
	n.writing = false
	for _, f := range frames {
		n.w.net.send(n, topology.NodeID(f.To), f.Data)
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
	n.close()
	n.fs = next
	w.refuse(n)
}

// refuse lets some nodes find out that the process is gone: its machine refuses their connection.
func (w *world) refuse(gone *node) {
	id := gone.self()
	for _, n := range w.nodes {
		if n == gone || n.host == nil || !w.oneIn(3) {
			continue
		}
		n.afterLife(w.between(time.Millisecond, 100*time.Millisecond), func() {
			if gone.host != nil || gone.self() != id || w.net.blocked[n.id][gone.id] || w.net.blocked[gone.id][n.id] {
				return
			}
			w.counts.Refused++
			n.parts.NodeGone(id)
		})
	}
}

func (n *node) restart() {
	if n.host == nil && len(n.w.failures) == 0 {
		n.start()
	}
}

// close ends the process without a word: tasks first, for they may have iterators open.
func (n *node) close() {
	n.life++
	n.kill()
	n.host, n.parts = nil, nil
	if n.log != nil {
		_ = n.log.Close()
	}
	if n.store != nil {
		_ = n.store.Close()
	}
	n.log, n.store = nil, nil
}

// leads reports whether a node leads a partition, by what its loop knows, and in which term.
func (n *node) leads(id topology.PartitionID) (term uint64, ok bool) {
	if n.host == nil {
		return 0, false
	}
	s, ok := n.host.Status(uint64(id))
	return s.Term, ok && s.Leading
}

// leaderOf returns the node that leads a partition in the highest term.
func (w *world) leaderOf(id topology.PartitionID) (leader *node) {
	last := uint64(0)
	for _, n := range w.nodes {
		if term, ok := n.leads(id); ok && term > last {
			leader, last = n, term
		}
	}
	return leader
}
