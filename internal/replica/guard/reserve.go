// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// reserveFiles is how many descriptors a Reserve holds: a flush, a compaction and a new log of two stores, with
	// their directories, and some tables to read.
	reserveFiles = 32
	// refillEvery is the time between two tries to get back what was given away.
	refillEvery = 20 * time.Millisecond
)

// Reserve keeps descriptors back for the stores of a process. The limits of connections leave enough for the stores,
// but a limit can be lowered under a running process, and a machine can run out: then a store takes its files from the
// reserve, and the doors let nobody else in until it is full again (F5). It is safe for concurrent use.
type Reserve struct {
	// open takes one more descriptor.
	open func() (io.Closer, error)
	// told hears when the reserve is touched, and when it is full again.
	told func(low bool)

	low     atomic.Bool
	mu      sync.Mutex
	held    []io.Closer
	closing chan struct{}
	closed  bool
	wg      sync.WaitGroup
}

// NewReserve fills a reserve. told, which may be nil, hears when it is touched, with true, and when it is full again,
// with false; it must not block.
func NewReserve(told func(low bool)) *Reserve {
	return newReserve(func() (io.Closer, error) { return os.Open(os.DevNull) }, told)
}

func newReserve(open func() (io.Closer, error), told func(low bool)) *Reserve {
	if told == nil {
		told = func(bool) {}
	}
	r := &Reserve{open: open, told: told, closing: make(chan struct{})}
	if !r.fill() {
		r.touch()
	}
	return r
}

// Close gives everything away. Close stores first.
func (r *Reserve) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	close(r.closing)
	for _, f := range r.held {
		_ = f.Close() // nothing was written
	}
	r.held = nil
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// Low reports whether stores live on the reserve: nobody else should take a descriptor.
func (r *Reserve) Low() bool { return r.low.Load() }

// give sets a descriptor free for whoever asks; false if there is none left to give.
func (r *Reserve) give() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.touch()
	n := len(r.held)
	if n == 0 {
		return false
	}
	_ = r.held[n-1].Close() // nothing was written
	r.held = r.held[:n-1]
	return true
}

// touch says that the reserve is low, and begins to refill it.
func (r *Reserve) touch() {
	if !r.low.Swap(true) {
		r.told(true)
		r.wg.Go(r.refill)
	}
}

// refill gets back what was given away.
func (r *Reserve) refill() {
	tick := time.NewTicker(refillEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.closing:
			return
		}
		if r.fill() {
			return
		}
	}
}

// fill takes what is missing, as far as there is something, and reports whether the reserve is full.
func (r *Reserve) fill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) < reserveFiles && !r.closed {
		f, err := r.open()
		if err != nil {
			return false
		}
		r.held = append(r.held, f)
	}
	if r.low.Swap(false) {
		r.told(false)
	}
	return true
}

// Listener returns a listener that accepts nobody while the reserve is low: connections wait in the queue of the
// operating system meanwhile. Accept fails then as it does for a process without descriptors.
func (r *Reserve) Listener(l net.Listener) net.Listener { return doorman{l, r} }

type doorman struct {
	net.Listener
	r *Reserve
}

// errLow is temporary: servers pause and try again.
var errLow = &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept", syscall.EMFILE)}

// Accept implements net.Listener.
func (d doorman) Accept() (net.Conn, error) {
	if d.r.Low() {
		return nil, errLow
	}
	return d.Listener.Accept()
}
