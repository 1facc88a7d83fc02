// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net"
	"sync"
	"time"
)

// lifetime tracks the goroutines, listeners, and connections of a transport (TR7).
type lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}
}

// end closes the listeners and connections, and ends ctx. All later calls of goRun, track, and trackListener return
// false.
func (l *lifetime) end() {
	l.mu.Lock()
	l.closed = true
	for _, listener := range l.listeners {
		_ = listener.Close()
	}
	for c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.cancel()
}

// goRun runs f on a goroutine that Close waits for. It returns false if the transport is closed.
func (l *lifetime) goRun(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.done.Go(f)
	return true
}

// track registers a connection so that Close closes the connection. If the transport is closed, track closes the
// connection and returns false.
func (l *lifetime) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

// trackListener registers a listener so that Close closes the listener. It returns false if the transport is closed.
func (l *lifetime) trackListener(listener net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.listeners = append(l.listeners, listener)
	}
	return !l.closed
}

// release closes a connection and unregisters it.
func (l *lifetime) release(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
}

// pause waits for the duration d or until early is closed. It returns false if ctx or the transport has ended. early
// may be nil.
func (l *lifetime) pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-early:
		return true
	case <-ctx.Done():
		return false
	case <-l.ctx.Done():
		return false
	}
}
