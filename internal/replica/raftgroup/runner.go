// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Runner gives the steps their goroutines: one loop, one log writer, one applier, and a few for snapshots. It decides
// nothing.
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
	// stepping is true from the taking of an inbox to the end of its Step: else the loop's state may be read with mu.
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

// NewRunner returns a runner of a host whose groups may be open already. Start starts it.
func NewRunner(h *Host, w *LogWriter, a *Applier, s SnapshotStore, t Transport, c Clock) *Runner {
	r := &Runner{
		host: h, writer: w, applier: a, snapshots: s, transport: t, clock: c, wake: make(chan struct{}, 1), stop: make(chan struct{}),
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

// Close ends leases, fails what waits and ends the goroutines. When it has returned, and never before, other nodes may
// be told that this one has departed: see Host.Departed.
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

// Failed returns why the runner stopped by itself, nil if it did not.
func (r *Runner) Failed() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops the node's groups: a log or a state that could not be written is not written again.
func (r *Runner) fail(err error) {
	if r.failure.CompareAndSwap(nil, &err) && r.host.opts.Events.Failed != nil {
		r.host.opts.Events.Failed(err)
	}
	r.halt()
}

// put changes the inbox and wakes the loop; it reports false when the runner is closed.
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

// Receive takes a frame from a peer; the transport calls it and does not use the frame again.
func (r *Runner) Receive(from NodeID, frame []byte) error {
	f, err := DecodeFrame(from, frame)
	if err != nil {
		return err
	}
	dropped := 0
	r.mu.Lock()
	if r.inboxBytes > r.host.opts.InboxBytes {
		dropped, f.Messages = len(f.Messages), nil
	}
	ok := !r.closed
	if ok {
		r.inboxBytes += int64(len(frame))
		r.inbox.Frames = append(r.inbox.Frames, f)
		r.inbox.asked = r.inbox.asked || f.asks
	}
	r.mu.Unlock()
	if dropped > 0 && r.host.opts.Events.Dropped != nil {
		r.host.opts.Events.Dropped("InboxBytes", dropped)
	}
	if ok {
		r.signal()
	}
	return nil
}

// ReceiveSnapshot takes what a peer sends with Transport.SendSnapshot; it returns when the data are on this node's
// disk, or why they are not. r has to end with io.EOF only if every byte is right.
func (r *Runner) ReceiveSnapshot(from NodeID, stream io.Reader) error {
	f, err := ReadHead(from, stream)
	if err != nil {
		return err
	}
	var refused error
	if err := r.Do(func(h *Host) { refused = h.Expect(&f) }); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	data, err := r.snapshots.Receive(f.Messages[0].Group, stream)
	if err != nil {
		r.Call(func(h *Host) { h.Abandon(&f) })
		return fmt.Errorf("receive snapshot of group %d: %w", f.Messages[0].Group, err)
	}
	f.Take(data)
	if !r.put(func(in *Inbox) { in.Frames = append(in.Frames, f) }) {
		_ = data.Close()
		return ErrClosed
	}
	return nil
}

func closeAll(list []SnapshotData) {
	for _, d := range list {
		_ = d.Close() // what is left is removed at the next start
	}
}

// Propose hands a command to a group (see Group.NewProposal). If it returns an error, waiter is not called.
func (r *Runner) Propose(g *Group, term uint64, data []byte, waiter Waiter) error {
	p, err := g.NewProposal(term, data, waiter)
	if err != nil {
		return err
	}
	r.mu.Lock()
	closed := r.closed
	wake := false
	if !closed {
		r.inbox.Proposals = append(r.inbox.Proposals, p)
		wake = r.stepping || !r.host.proposesLater(g)
	}
	r.mu.Unlock()
	if wake {
		r.signal()
	}
	if closed {
		g.proposals.Add(-1)
		g.host.proposed.Add(-int64(len(data)))
		return ErrClosed
	}
	return nil
}

// ReadIndex asks a quorum for the right to read (see Group.NewRead). If it returns an error, waiter is not called.
func (r *Runner) ReadIndex(g *Group, waiter Waiter) error {
	read, err := g.NewRead(waiter)
	if err != nil {
		return err
	}
	r.mu.Lock()
	closed := r.closed
	wake := false
	if !closed {
		r.inbox.Reads = append(r.inbox.Reads, read)
		wake = r.stepping || !r.host.asksLater(g)
	}
	r.mu.Unlock()
	if wake {
		r.signal()
	}
	if closed {
		g.reading.Add(-1)
		return ErrClosed
	}
	return nil
}

// Read calls read under the lease, or again behind a read index: what it read last holds everything that had succeeded
// when Read was called. Only the leader can.
func (r *Runner) Read(ctx context.Context, g *Group, read func() error) error {
	if lease := g.Lease(); lease != 0 {
		if err := read(); err != nil {
			return err
		}
		if g.Leased(lease, r.clock.Now()) {
			return nil
		}
	}
	done := make(chanWaiter, 1)
	if err := r.ReadIndex(g, done); err != nil {
		return err
	}
	select {
	case o := <-done:
		if o.Err != nil {
			return o.Err
		}
		return read()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chanWaiter is a Waiter for somebody who blocks; it needs room for one.
type chanWaiter chan Outcome

// Done is called on the loop.
func (c chanWaiter) Done(o Outcome) { c <- o }

// Call runs f on the loop, soon; it reports false if the runner is closed.
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

// loop runs Step whenever something happened.
func (r *Runner) loop() {
	ticker := time.NewTicker(r.host.opts.Tick)
	defer ticker.Stop()
	defer r.drain()
	defer r.recoverInconsistent()
	var spare Inbox
	// Between ticks the loop reads Go's clock, which is cheaper than the boot clock. It stands still while the machine
	// is suspended, so the loop may take a moment for an earlier one: a lease that begins then ends earlier. Who serves
	// reads asks the boot clock, and so does the loop where followers ask for their reads.
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
			base = r.clock.Now() // in this order: a pause between makes the sum earlier, not later
			at = time.Now()
		}
		r.mu.Lock()
		in := r.inbox
		r.inbox, r.inboxBytes, r.stepping = spare, 0, true
		r.mu.Unlock()
		in.Ticks, in.Coarse = ticks, !in.asked
		now := base + Instant(time.Since(at))
		if in.asked {
			now = r.clock.Now() // behind the taking of the inbox (G10)
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

// recoverInconsistent ends the groups, and nothing else, when the library finds their state to be impossible.
func (r *Runner) recoverInconsistent() {
	switch p := recover().(type) {
	case nil:
	case inconsistent:
		r.fail(p)
	default:
		panic(p)
	}
}

// clear empties an inbox and keeps its memory.
func (in *Inbox) clear() {
	in.Ticks, in.asked = 0, false
	in.Calls = emptied(in.Calls)
	in.Logged = emptied(in.Logged)
	in.Applied = emptied(in.Applied)
	in.Installed = emptied(in.Installed)
	in.Shipped = emptied(in.Shipped)
	in.Frames = emptied(in.Frames)
	in.Proposals = emptied(in.Proposals)
	in.Reads = emptied(in.Reads)
	in.Unreachable = emptied(in.Unreachable)
}

// keptMax is how many elements a list in an inbox may keep memory for.
const keptMax = 16 << 10

func emptied[T any](s []T) []T {
	if cap(s) > keptMax {
		return nil
	}
	clear(s)
	return s[:0]
}

// drain ends everything when the loop does.
func (r *Runner) drain() {
	r.mu.Lock()
	r.closed = true
	in := r.inbox
	r.inbox = Inbox{}
	r.mu.Unlock()
	for _, g := range r.host.order {
		g.stepDown(r.host)
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
		r.halt() // the host is being closed, and the replica is as it was before
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

// queue passes work to goroutines in order.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	wake  chan struct{}
}

func (q *queue[T]) init() { q.wake = make(chan struct{}, 1) }

func (q *queue[T]) put(items []T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	if q.items == nil {
		q.items = items
	} else {
		q.items = append(q.items, items...)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// serve runs f over all that is queued, again and again.
func serve[T any](r *Runner, q *queue[T], f func([]T)) {
	for {
		select {
		case <-r.stop:
			return
		case <-q.wake:
		}
		q.mu.Lock()
		items := q.items
		q.items = nil
		q.mu.Unlock()
		if len(items) > 0 {
			f(items)
		}
	}
}

// serveOne runs f over one item at a time; several goroutines may serve one queue.
func serveOne[T any](r *Runner, q *queue[T], f func(T)) {
	for {
		select {
		case <-r.stop:
			return
		case <-q.wake:
		}
		q.mu.Lock()
		n := len(q.items)
		var item T
		if n > 0 {
			item = q.items[0]
			q.items = append([]T(nil), q.items[1:]...)
		}
		q.mu.Unlock()
		if n > 1 {
			q.signal()
		}
		if n > 0 {
			f(item)
			q.signal()
		}
	}
}
