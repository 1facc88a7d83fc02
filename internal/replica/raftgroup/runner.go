// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Runner runs the steps on goroutines. It has one goroutine for the loop, one for the log writer, one for the applier,
// and a few for snapshots.
type Runner struct {
	host      *Host
	writer    *LogWriter
	applier   *Applier
	snapshots SnapshotStore
	transport Transport
	clock     Clock

	mu         sync.Mutex
	inbox      Inbox
	inboxBytes int64
	closed     bool
	// stepping is true from the retrieval of an inbox to the end of the Step. While stepping is false, other goroutines
	// may read the loop's state under mu.
	stepping bool
	wake     chan struct{}

	appends  queue[Append]
	applies  queue[Apply]
	installs queue[Install]
	sends    queue[Send]
	discards queue[SnapshotData]

	stop     chan struct{}
	stopOnce sync.Once
	done     sync.WaitGroup
	failure  atomic.Pointer[error]
}

// NewRunner returns a runner for a host. The groups of the host may already be open. The caller must call Start.
func NewRunner(h *Host, w *LogWriter, a *Applier, s SnapshotStore, t Transport, c Clock) *Runner {
	r := &Runner{
		host: h, writer: w, applier: a, snapshots: s, transport: t, clock: c, wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
	}
	r.appends.init()
	r.applies.init()
	r.installs.init()
	r.sends.init()
	r.discards.init()
	return r
}

// Start starts the goroutines.
func (r *Runner) Start() {
	r.goRun(r.loop)
	r.goRun(func() { serve(r, &r.appends, r.write) })
	r.goRun(func() { serve(r, &r.applies, r.apply) })
	r.goRun(func() { serve(r, &r.discards, closeAll) })
	for range r.host.opts.SnapshotsAtOnce {
		r.goRun(func() { serveOne(r, &r.installs, r.install) })
		r.goRun(func() { serveOne(r, &r.sends, r.send) })
	}
}

func (r *Runner) goRun(f func()) {
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		f()
	}()
}

// Close ends leases, fails waiting requests, and stops the goroutines. Other nodes may be notified that this node has
// departed only after Close has returned (see Host.NodeDeparted).
func (r *Runner) Close() error {
	r.halt()
	r.done.Wait()
	for _, i := range r.installs.items {
		_ = i.data.Close()
	}
	closeAll(r.discards.items)
	return r.Failed()
}

func (r *Runner) halt() { r.stopOnce.Do(func() { close(r.stop) }) }

// Failed returns the error that stopped the runner, or nil.
func (r *Runner) Failed() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops the node's groups. Failed writes of logs and states are never retried.
func (r *Runner) fail(err error) {
	if r.failure.CompareAndSwap(nil, &err) {
		r.host.opts.Observer.Failed(err)
	}
	r.halt()
}

// put changes the inbox and wakes the loop. It returns false if the runner is closed.
func (r *Runner) put(f func(*Inbox)) bool {
	r.mu.Lock()
	ok := !r.closed
	if ok {
		f(&r.inbox)
	}
	r.mu.Unlock()
	if ok {
		r.signal()
	}
	return ok
}

func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func closeAll(list []SnapshotData) {
	for _, d := range list {
		_ = d.Close() // remaining files are removed at the next start
	}
}

// Call runs f on the loop, asynchronously. It returns false if the runner is closed.
func (r *Runner) Call(f func(*Host)) bool {
	return r.put(func(in *Inbox) { in.Calls = append(in.Calls, f) })
}

// Do runs f on the loop and waits for it.
func (r *Runner) Do(f func(*Host)) error {
	done := make(chan struct{})
	if !r.Call(func(h *Host) { f(h); close(done) }) {
		return ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-r.stop:
		return ErrClosed
	}
}

// loop calls Step whenever the inbox contains events.
func (r *Runner) loop() {
	ticker := time.NewTicker(r.host.opts.Tick)
	defer ticker.Stop()
	defer r.drain()
	defer r.recoverInconsistent()
	var spare Inbox
	// Between ticks, the loop reads Go's clock, which is cheaper than the boot clock. Go's clock stops while the
	// machine is suspended, so the loop's time may lag behind the boot clock. Leases then end earlier, which is safe.
	// The loop uses the boot clock if followers have sent queries for reads.
	base := r.clock.Now()
	at := time.Now()
	for {
		ticks := 0
		select {
		case <-r.stop:
			return
		case <-r.wake:
		case <-ticker.C:
			ticks = 1
			// The boot clock must be read first, so that a pause between the two calls makes the computed time earlier
			// instead of later.
			base = r.clock.Now()
			at = time.Now()
		}
		r.mu.Lock()
		in := r.inbox
		r.inbox, r.inboxBytes, r.stepping = spare, 0, true
		r.mu.Unlock()
		in.Ticks, in.Coarse = ticks, !in.hasQueries
		now := base + Instant(time.Since(at))
		if in.hasQueries {
			now = r.clock.Now() // after the inbox has been taken (RG10)
		}
		work := r.host.Step(now, &in)
		r.mu.Lock()
		r.stepping = false
		r.mu.Unlock()
		for _, f := range work.Frames {
			r.sendFrame(f)
		}
		r.appends.put(work.Appends)
		r.applies.put(work.Applies)
		r.installs.put(work.Installs)
		r.sends.put(work.Sends)
		r.discards.put(work.Discards)
		in.clear()
		spare = in
	}
}

// recoverInconsistent stops the groups instead of the process if the library panics because of inconsistent state.
func (r *Runner) recoverInconsistent() {
	switch p := recover().(type) {
	case nil:
	case inconsistent:
		r.fail(p)
	default:
		panic(p)
	}
}

// drain fails all pending work when the loop ends.
func (r *Runner) drain() {
	r.mu.Lock()
	r.closed = true
	in := r.inbox
	r.inbox = Inbox{}
	r.mu.Unlock()
	for _, g := range r.host.order {
		g.stepDown()
		g.leadShown.Store(0)
		g.close()
	}
	closeAll(r.host.work.Discards)
	for i := range in.Frames {
		for _, m := range in.Frames[i].Messages {
			if m.Data != nil {
				_ = m.Data.Close()
			}
		}
	}
	for i := range in.Proposals {
		in.Proposals[i].end(Outcome{Err: ErrClosed})
	}
	for i := range in.Reads {
		in.Reads[i].end(Outcome{Err: ErrClosed})
	}
}

func (r *Runner) sendFrame(f Frame) {
	if !r.transport.Send(f.To, f.Data) {
		r.put(func(in *Inbox) { in.Unreachable = append(in.Unreachable, f.To) })
	}
}

func (r *Runner) write(items []Append) {
	logged, frames, err := r.writer.Write(items)
	if err != nil {
		r.fail(err)
		return
	}
	for _, f := range frames {
		r.sendFrame(f)
	}
	r.put(func(in *Inbox) { in.Logged = append(in.Logged, logged...) })
}

func (r *Runner) apply(items []Apply) {
	applied, err := r.applier.Apply(items)
	if err != nil {
		r.fail(err)
		return
	}
	r.put(func(in *Inbox) { in.Applied = append(in.Applied, applied...) })
}

func (r *Runner) install(i Install) {
	installed, err := i.Run(r.snapshots)
	if errors.Is(err, context.Canceled) {
		r.halt() // the host is being closed
		return
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.put(func(in *Inbox) { in.Installed = append(in.Installed, installed) })
}

func (r *Runner) send(s Send) {
	head, data, err := s.Capture(r.snapshots)
	if err == nil {
		err = errors.Join(r.transport.SendSnapshot(s.To, head, data, data.Size()), data.Close())
	}
	r.put(func(in *Inbox) { in.Shipped = append(in.Shipped, s.Result(err)) })
}
