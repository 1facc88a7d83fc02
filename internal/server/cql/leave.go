// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"errors"
	"os"
	"time"
)

// The protocol has no message by which a server announces that it closes a connection. A client cannot know whether a
// request that it has just sent was executed. Therefore a server that shuts down continues to serve a connection until
// it is idle: all received requests have been answered, and no data has arrived for a certain time. This time becomes
// shorter as the shutdown proceeds, so that a busy connection is closed in one of its short gaps. After readMost, the
// server stops reading from a connection without gaps.

const (
	// idleGapMost is the initial idle time. It is halved every idleGapStep until it reaches idleGapLeast.
	idleGapMost, idleGapLeast = 32 * time.Millisecond, 4 * time.Millisecond
	idleGapStep               = 100 * time.Millisecond
	// idleReads is the number of reads into which the idle time is divided. If the machine stalls, only one of them
	// elapses.
	idleReads = 4
	// oweGap is the interval at which a connection with unsent responses is checked.
	oweGap = 5 * time.Millisecond
	// readMost is the time for which a connection without gaps is read. gocql closes its connections, and fails the
	// requests on them, one second after it has received DOWN for the node.
	readMost = 900 * time.Millisecond
	// partialWait is the time that a client has to complete a partially received message.
	partialWait = 2 * time.Second
)

// Shutdown stops accepting connections, serves the existing ones until each is idle, and closes them. When ctx ends,
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
		if !c.leaving.Load() {
			_ = c.nc.SetReadDeadline(now) // repeatedly, because the end of a handshake resets the deadline
		}
	}
	return len(s.conns) > 0
}

// idleGap returns the idle time after which a connection is closed now.
func (s *Server) idleGap() time.Duration {
	halved := min(time.Since(s.leavingSince)/idleGapStep, 10)
	return max(idleGapMost>>halved, idleGapLeast)
}

// leave starts an idle period: the next read of the connection times out at its end. It returns false if the
// connection must no longer be read.
func (c *conn) leave() bool {
	c.leaving.Store(true)
	c.idleReads = 0
	c.readFor(c.srv.idleGap() / idleReads)
	return time.Since(c.srv.leavingSince) < readMost
}

// readFor sets the deadline of the next read to d from now.
func (c *conn) readFor(d time.Duration) {
	c.idleUntil = time.Now().Add(d)
	_ = c.nc.SetReadDeadline(c.idleUntil)
}

// answerAll waits until the responses to all requests have been written.
func (c *conn) answerAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	c.wait(func() bool { return c.pending.Load() > 0 || c.writing || c.scheduled || len(c.out.Buf) > 0 })
}

// timedOut handles the error of a read. It returns errClosing if the connection was idle for the required time and all
// output has been sent. It returns nil if the connection must be read again, because the server has just started to
// shut down or still owes a response.
func (c *conn) timedOut(err error) error {
	s := c.srv
	if !s.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if c.owes() {
		c.leaving.Store(true)
		c.idleReads = 0
		c.readFor(oweGap)
		return nil
	}
	if !c.leaving.Load() && c.phase == ready {
		c.leave()
		return nil
	}
	if time.Now().Before(c.idleUntil) { // interrupt was late
		_ = c.nc.SetReadDeadline(c.idleUntil)
		return nil
	}
	if c.idleReads++; c.idleReads < idleReads && c.phase == ready {
		c.readFor(s.idleGap() / idleReads)
		return nil
	}
	linger(c.nc)
	return errClosing
}

// owes reports whether the connection has unanswered requests or a partial message.
func (c *conn) owes() bool {
	if (len(c.rest) > 0 || c.in != nil && c.in.r < c.in.w || c.large.Open() || c.skip > 0) &&
		time.Since(c.srv.leavingSince) < partialWait {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	return c.pending.Load() > 0 || len(c.parked) > 0 || c.writing || c.scheduled || len(c.out.Buf) > 0
}
