// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"errors"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Loop runs the steps of a raftgroup.Host. It replaces raftgroup.Runner, which uses goroutines. It collects work in an
// inbox and sends frames over the simulated network. It runs the log writer and the applier after a simulated disk
// latency.
type Loop struct {
	*Machine
	Host   *raftgroup.Host
	Writer *raftgroup.LogWriter
	Apply  *raftgroup.Applier
	Snaps  raftgroup.SnapshotStore
	Inbox  raftgroup.Inbox
	// Discards counts unnecessary snapshots that arrived. Unwanted counts snapshots that did not need to be sent.
	Discards, Unwanted int
	Hooks              Hooks
	// Midway is set while the loop applies entries or installs a snapshot.
	Midway bool

	// stepping, writing, and applying are set while a step of the loop, the log writer, or the applier is scheduled.
	stepping, writing, applying bool
	appends                     []raftgroup.Append
	applies                     []raftgroup.Apply
}

// Hooks connects a loop to the simulation that contains it.
type Hooks struct {
	Tick time.Duration
	// ID returns the identity of the node. At returns the loop that has another identity, or nil.
	ID func() raftgroup.NodeID
	At func(id raftgroup.NodeID) *Loop
	// Ahead, Heard, and Said are hooks for planted bugs and may be nil. The loop adds the result of Ahead to the clock
	// of each step. Heard changes the received messages, and Said changes the sent messages.
	Ahead func() raftgroup.Instant
	Heard func(f *raftgroup.Received)
	Said  func(frame []byte) []byte
	// Applied is called after entries have been applied. Stop ends a process whose disk is full.
	Applied func()
	Stop    func()
	// CrashedInStep is called after each step and may be nil. If the process has crashed within the step,
	// CrashedInStep ends the process and returns true.
	CrashedInStep func() bool
	// Lost handles a log that lacks acknowledged entries. Such a log ends the process. Lost reports whether the loss
	// is expected. Lost is nil if no loss is expected.
	Lost func(err error) bool
	// Lenient allows the receipt of a snapshot to fail.
	Lenient bool
	// Lets reports whether the loop admits another node's process. If it is nil, all processes are admitted.
	Lets func(from raftgroup.NodeID) bool
}

// Begin starts the ticks. The host and the other components must exist.
func (l *Loop) Begin() { l.AfterLife(l.Environment.Between(0, l.Hooks.Tick), l.tick) }

// Reset discards the pending work of an earlier process run.
func (l *Loop) Reset() {
	l.Inbox, l.appends, l.applies = raftgroup.Inbox{}, nil, nil
	l.stepping, l.writing, l.applying = false, false, false
}

func (l *Loop) tick() {
	l.Inbox.Ticks++
	l.Kick()
	l.AfterLife(l.Real(l.Hooks.Tick), l.tick)
}

// Call makes the loop run a function.
func (l *Loop) Call(f func(*raftgroup.Host)) {
	l.Inbox.Calls = append(l.Inbox.Calls, f)
	l.Kick()
}

// Departed delivers the shutdown message of another node's process to the loop.
func (l *Loop) Departed(node raftgroup.NodeID) {
	if l.Up {
		l.Call(func(h *raftgroup.Host) { h.NodeDeparted(node) })
	}
}

// Hear receives a frame from another node. The network calls Hear.
func (l *Loop) Hear(from raftgroup.NodeID, frame []byte) {
	if !l.Up || l.Hooks.Lets != nil && !l.Hooks.Lets(from) {
		return
	}
	f, err := raftgroup.DecodeFrame(from, frame)
	if err != nil {
		l.Environment.Fail("node %d: frame from node %x: %v", l.ID, from[:2], err)
		return
	}
	if l.Hooks.Heard != nil {
		l.Hooks.Heard(&f)
	}
	l.Inbox.Frames = append(l.Inbox.Frames, f)
	l.Kick()
}

// Kick schedules a step of the loop.
func (l *Loop) Kick() {
	if !l.Up || l.stepping {
		return
	}
	l.stepping = true
	w := l.Environment
	l.AfterLife(w.Between(5*time.Microsecond, 50*time.Microsecond), func() { l.AfterPause(l.step) })
}

// step runs the loop once and schedules the resulting work.
func (l *Loop) step() {
	l.stepping = false
	now := l.Now()
	if l.Hooks.Ahead != nil {
		now += l.Hooks.Ahead()
	}
	in := l.Inbox
	l.Inbox = raftgroup.Inbox{}
	in.Ticks = min(in.Ticks, 1) // a ticker drops ticks that are not consumed
	l.Guard(func() error {
		l.take(l.Host.Step(now, &in))
		return nil
	})
}

func (l *Loop) take(work raftgroup.Work) {
	if said := l.Hooks.Said; said != nil {
		for i := range work.Frames {
			work.Frames[i].Data = said(work.Frames[i].Data)
		}
	}
	l.post(work.Frames)
	l.appends = append(l.appends, work.Appends...)
	l.applies = append(l.applies, work.Applies...)
	l.scheduleWrite()
	l.scheduleApply()
	for _, i := range work.Installs {
		l.AfterLife(l.Latency(20*time.Millisecond), func() {
			l.Guard(func() error {
				defer l.midway()()
				done, err := i.Run(l.Snaps)
				l.Inbox.Installed = append(l.Inbox.Installed, done)
				return err
			})
			l.Kick()
		})
	}
	for _, d := range work.Discards {
		l.Discards++
		if err := d.Close(); err != nil {
			l.Environment.Fail("node %d: %v", l.ID, err)
		}
	}
	for _, s := range work.Sends {
		l.AfterLife(l.Latency(5*time.Millisecond), func() { l.ship(s) })
	}
}

// post sends frames. It determines the receiving loop when the frames arrive, because the identity of a machine may
// change.
func (l *Loop) post(frames []raftgroup.Frame) {
	from := l.Hooks.ID()
	for _, f := range frames {
		to := f.To
		l.Environment.Net.Send(l.ID, int(to[0])-1, f.Data, func(frame []byte) {
			if target := l.Hooks.At(to); target != nil {
				target.Hear(from, frame)
			}
		})
	}
}

var errLost = errors.New("connection lost")

// ship captures a snapshot after the disk latency and sends it over the network.
func (l *Loop) ship(s raftgroup.Send) {
	w := l.Environment
	head, data, err := s.Capture(l.Snaps)
	switch {
	case err != nil && l.Hooks.Lenient: // the table was dropped
		l.Inbox.Shipped = append(l.Inbox.Shipped, s.Result(err))
		l.Kick()
		return
	case err != nil:
		w.Fail("node %d: %v", l.ID, err)
		return
	}
	life, over := l.Life, false
	done := func(err error) {
		if over || l.Life != life || !l.Up {
			return
		}
		over = true
		if err := data.Close(); err != nil {
			w.Fail("node %d: %v", l.ID, err)
		}
		l.Inbox.Shipped = append(l.Inbox.Shipped, s.Result(err))
		l.Kick()
	}
	from, to := l.Hooks.ID(), s.To
	w.NoteFrame(l.ID, int(to[0])-1, head)
	stream := w.Net.shipment(headed{head, data}, int64(len(head))+data.Size(),
		func() bool { return over || l.Life != life })
	w.Net.Stream(l.ID, int(to[0])-1, func(whole bool) {
		if target := l.Hooks.At(to); whole && target != nil {
			target.receive(from, stream, done)
			return
		}
		done(errLost)
	})
	w.After(4*time.Second, func() { done(errLost) }) // report the loss later if the receiver has died
}

// receive receives a snapshot. It asks the loop whether the snapshot is wanted, transfers the data, and then notifies
// the loop.
func (l *Loop) receive(from raftgroup.NodeID, stream io.Reader, done func(error)) {
	if l.Hooks.Lets != nil && !l.Hooks.Lets(from) {
		done(errLost)
		return
	}
	f, err := raftgroup.ReadHead(from, stream)
	if err != nil {
		l.Environment.Fail("node %d: header from node %x: %v", l.ID, from[:2], err)
		return
	}
	l.Call(func(h *raftgroup.Host) {
		if err := h.Expect(&f); err != nil {
			l.Unwanted++
			done(err)
			return
		}
		l.AfterLife(l.Latency(20*time.Millisecond), func() { l.takeData(f, stream, done) })
	})
}

func (l *Loop) takeData(f raftgroup.Received, stream io.Reader, done func(error)) {
	w := l.Environment
	if w.OneIn(15) && !w.Calm {
		l.Call(func(h *raftgroup.Host) { h.Abandon(&f) })
		done(errLost)
		return
	}
	data, err := l.Snaps.Receive(f.Messages[0].Group, stream)
	switch {
	case errors.Is(err, errLost), err != nil && l.Hooks.Lenient:
		// The process of the sender has ended, or the received data was replaced by a replica that is being removed.
		// The sender repeats the snapshot.
		w.Note("node %d: %v", l.ID, err)
		l.Call(func(h *raftgroup.Host) { h.Abandon(&f) })
		done(err)
	case err != nil:
		w.Fail("node %d: %v", l.ID, err)
	default:
		f.Take(data)
		l.Inbox.Frames = append(l.Inbox.Frames, f)
		done(nil)
		l.Kick()
	}
}

// scheduleWrite makes the log writer process its queue. The data is written at the start or at the end of the disk
// latency, so a crash during that time may find either state.
func (l *Loop) scheduleWrite() {
	if l.writing || len(l.appends) == 0 {
		return
	}
	l.writing = true
	if l.Environment.OneIn(2) {
		logged, frames, ok := l.write()
		if ok {
			l.AfterLife(l.Latency(4*time.Millisecond), func() { l.wrote(logged, frames) })
		}
		return
	}
	l.AfterLife(l.Latency(4*time.Millisecond), func() {
		if logged, frames, ok := l.write(); ok {
			l.wrote(logged, frames)
		}
	})
}

func (l *Loop) write() (logged []raftgroup.Logged, frames []raftgroup.Frame, ok bool) {
	items := l.appends
	l.appends = nil
	ok = l.Guard(func() error {
		var out []raftgroup.Frame
		var err error
		logged, out, err = l.Writer.Write(items)
		for _, f := range out {
			f.Data = append([]byte(nil), f.Data...)
			frames = append(frames, f)
		}
		return err
	})
	return logged, frames, ok
}

func (l *Loop) wrote(logged []raftgroup.Logged, frames []raftgroup.Frame) {
	l.writing = false
	l.post(frames)
	l.Inbox.Logged = append(l.Inbox.Logged, logged...)
	l.Kick()
	l.scheduleWrite()
}

func (l *Loop) scheduleApply() {
	if l.applying || len(l.applies) == 0 {
		return
	}
	l.applying = true
	l.AfterLife(l.Latency(2*time.Millisecond), func() {
		items := l.applies
		l.applies = nil
		ok := l.Guard(func() error {
			defer l.midway()()
			done, err := l.Apply.Apply(items)
			l.Inbox.Applied = append(l.Inbox.Applied, done...)
			return err
		})
		if !ok {
			return
		}
		l.applying = false
		l.Hooks.Applied()
		l.Kick()
		l.scheduleApply()
	})
}

// midway marks the start of a step that CrashedInStep checks. over marks its end.
func (l *Loop) midway() (over func()) {
	l.Midway = true
	return func() { l.Midway = false }
}

// errDiskFull is the error from a full disk, which ends the process.
var errDiskFull = errors.New("no space left on device")

// Guard runs a step. A full disk ends the process. Any other error or panic is a failure of the product.
func (l *Loop) Guard(step func() error) (ok bool) {
	w := l.Environment
	defer func() {
		if r := recover(); r != nil {
			ok = false
			err, is := r.(error)
			if is && errors.Is(err, raftgroup.ErrLostLog) && l.Hooks.Lost != nil && l.Hooks.Lost(err) {
				return
			}
			w.Fail("node %d: panic: %v", l.ID, r)
		}
	}()
	err := step()
	switch {
	case l.Hooks.CrashedInStep != nil && l.Hooks.CrashedInStep():
	case err == nil:
		return true
	case errors.Is(err, errDiskFull):
		w.Note("node %d: %v", l.ID, err)
		l.Hooks.Stop()
	default:
		w.Fail("node %d: %v", l.ID, err)
	}
	return false
}

// OnDisk returns a log batch that a full disk rejects.
func (m *Machine) OnDisk(b raftgroup.LogBatch) raftgroup.LogBatch { return logOnDisk{b, m} }

type logOnDisk struct {
	raftgroup.LogBatch
	m *Machine
}

func (l logOnDisk) Commit(sync bool) error {
	if l.m.Full {
		return errDiskFull
	}
	return l.LogBatch.Commit(sync)
}
