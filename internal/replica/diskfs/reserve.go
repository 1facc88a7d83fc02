// SPDX-License-Identifier: Apache-2.0

package diskfs

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
	// reserveFiles is the number of descriptors that a Reserve holds. These descriptors are sufficient for a flush, a
	// compaction, the new logs and directories of two stores, and reads of some tables.
	reserveFiles = 32
	// refillEvery is the delay between two attempts to refill the reserve.
	refillEvery = 20 * time.Millisecond
)

// Reserve holds spare file descriptors for the stores of a process. If the process or the machine has no free
// descriptors, a store uses descriptors from the reserve. Listeners then accept no connections until the reserve is
// full again (F5). Reserve is safe for concurrent use.
type Reserve struct {
	// open opens one descriptor.
	open func() (io.Closer, error)
	// onChange is called when the reserve is first used and when it is full again.
	onChange func(low bool)

	low     atomic.Bool
	mu      sync.Mutex
	held    []io.Closer
	closing chan struct{}
	closed  bool
	wg      sync.WaitGroup
}

// NewReserve returns a full reserve. The reserve calls its argument with true when stores start to use the reserve, and
// with false when the reserve is full again. The argument may be nil and must not block.
func NewReserve(told func(low bool)) *Reserve {
	return newReserve(func() (io.Closer, error) { return os.Open(os.DevNull) }, told)
}

func newReserve(open func() (io.Closer, error), told func(low bool)) *Reserve {
	if told == nil {
		told = func(bool) {}
	}
	r := &Reserve{open: open, onChange: told, closing: make(chan struct{})}
	if !r.fill() {
		r.markLow()
	}
	return r
}

// Close closes all descriptors. The stores must be closed first.
func (r *Reserve) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	close(r.closing)
	for _, f := range r.held {
		_ = f.Close() // nothing was written to the file
	}
	r.held = nil
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// Low reports whether stores are using the reserve. Other parts of the process should not open descriptors while the
// reserve is low.
func (r *Reserve) Low() bool { return r.low.Load() }

// release closes one descriptor for the caller. It returns false if the reserve is empty.
func (r *Reserve) release() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.markLow()
	n := len(r.held)
	if n == 0 {
		return false
	}
	_ = r.held[n-1].Close() // nothing was written to the file
	r.held = r.held[:n-1]
	return true
}

// markLow marks the reserve as low and starts refilling it.
func (r *Reserve) markLow() {
	if !r.low.Swap(true) {
		r.onChange(true)
		r.wg.Go(r.refill)
	}
}

// refill reopens the released descriptors.
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

// fill opens as many missing descriptors as possible. It reports whether the reserve is full.
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
		r.onChange(false)
	}
	return true
}

// Listener returns a listener that accepts no connections while the reserve is low. Connections then wait in the
// operating system's queue, and Accept returns the same error as in a process without free descriptors.
func (r *Reserve) Listener(l net.Listener) net.Listener { return limitedListener{l, r} }

type limitedListener struct {
	net.Listener
	r *Reserve
}

// errLow is a temporary error, so servers pause and retry.
var errLow = &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept", syscall.EMFILE)}

// Accept implements net.Listener.
func (d limitedListener) Accept() (net.Conn, error) {
	if d.r.Low() {
		return nil, errLow
	}
	return d.Listener.Accept()
}
