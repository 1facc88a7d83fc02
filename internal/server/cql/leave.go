// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// The protocol has no message that announces the end of a connection. If a server closes a connection, a client
// therefore cannot know whether a request that it has just sent was executed. For this reason, a server that shuts
// down serves each connection until the connection is idle. A connection is idle if all received requests have been
// answered and no data has arrived for some time. This time decreases during the shutdown, so even a busy connection
// is closed in one of its short gaps. After readMost, the server also stops reading from connections without gaps.

const (
	// idleGapMost is the initial idle time. It is halved every idleGapStep until it reaches idleGapLeast.
	idleGapMost, idleGapLeast = 32 * time.Millisecond, 4 * time.Millisecond
	idleGapStep               = 100 * time.Millisecond
	// idleReads is the number of reads into which the idle time is divided. If the machine stalls, only one of these
	// reads times out.
	idleReads = 4
	// oweGap is the interval at which a connection with unsent responses is checked.
	oweGap = 5 * time.Millisecond
	// readMost is the maximum time for which a server that shuts down reads from a connection without gaps. gocql
	// closes its connections one second after it has received DOWN for the node. Requests on these connections then
	// fail.
	readMost = 900 * time.Millisecond
	// partialWait is the maximum time in which a client must complete a partially received message.
	partialWait = 2 * time.Second
)

// Shutdown stops accepting connections, serves each existing connection until it is idle, and closes it. When ctx ends,
// it closes all remaining connections.
func (s *Server) Shutdown(ctx context.Context) {
	s.stopListening()
	s.leavingSince = time.Now()
	s.draining.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.interrupt() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	s.Close()
}

// interrupt wakes the connections that wait for input and have not been notified of the shutdown. It returns false if
// no connection is left.
func (s *Server) interrupt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for c := range s.conns {
		if !c.shutdown.notified.Load() {
			// The deadline must be set repeatedly, because the end of a handshake resets it.
			_ = c.nc.SetReadDeadline(now)
		}
	}
	return len(s.conns) > 0
}

// idleGap returns the idle time after which a connection is closed at present.
func (s *Server) idleGap() time.Duration {
	halved := min(time.Since(s.leavingSince)/idleGapStep, 10)
	return max(idleGapMost>>halved, idleGapLeast)
}

// shutdown is the state of a connection during Server.Shutdown.
type shutdown struct {
	srv *Server
	nc  net.Conn
	// notified is set when the connection has been notified of the shutdown. idleReads is the number of reads that
	// have timed out since the last request or response. idleUntil is the time at which the next read times out.
	notified  atomic.Bool
	idleReads int
	idleUntil time.Time
}

// leave starts an idle period. At the end of the period, the next read of the connection times out. leave returns
// false if the connection must no longer be read.
func (d *shutdown) leave() bool {
	d.restart(d.srv.idleGap() / idleReads)
	return time.Since(d.srv.leavingSince) < readMost
}

// restart starts an idle period whose first read times out after gap.
func (d *shutdown) restart(gap time.Duration) {
	d.notified.Store(true)
	d.idleReads = 0
	d.readFor(gap)
}

// readFor sets the deadline of the next read. The deadline is gap from now.
func (d *shutdown) readFor(gap time.Duration) {
	d.idleUntil = time.Now().Add(gap)
	_ = d.nc.SetReadDeadline(d.idleUntil)
}

// answerAll waits until the responses to all requests have been written.
func (c *conn) answerAll() {
	c.out.flushUntil(func() bool { return c.exec.pending.Load() == 0 && c.out.empty() })
}

// timedOut handles the timeout of a read. It returns errClosing if the connection has been idle for the required time
// and all output has been sent. It returns nil if the connection must be read again. The connection must be read again
// if the server has just started its shutdown or must still send a response.
func (c *conn) timedOut(err error) error {
	s, d := c.srv, &c.shutdown
	if !s.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if c.owes() {
		d.restart(oweGap)
		return nil
	}
	if !d.notified.Load() && c.handshake.phase == ready {
		d.leave()
		return nil
	}
	if time.Now().Before(d.idleUntil) { // the interrupt was late
		_ = c.nc.SetReadDeadline(d.idleUntil)
		return nil
	}
	if d.idleReads++; d.idleReads < idleReads && c.handshake.phase == ready {
		d.readFor(s.idleGap() / idleReads)
		return nil
	}
	linger(c.nc)
	return errClosing
}

// owes reports whether the connection has unanswered requests or a partial message.
func (c *conn) owes() bool {
	if c.in.partial() && time.Since(c.srv.leavingSince) < partialWait {
		return true
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.flush()
	return c.exec.pending.Load() > 0 || !c.out.empty()
}
