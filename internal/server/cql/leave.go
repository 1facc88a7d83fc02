// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"errors"
	"os"
	"time"
)

// The protocol has no message by which a server announces that it closes a connection, and a client cannot know whether
// a request that it sent just before was executed. So a server that shuts down continues to answer a connection until
// it is idle: everything that was read is answered, and no more has arrived for a while. The while becomes shorter the
// longer the shutdown takes, so that a connection that is never idle for long is closed in one of its gaps. One without
// gaps is read no more after readMost.

const (
	// idleGapMost is the first of these whiles; it is halved every idleGapStep until it is idleGapLeast.
	idleGapMost, idleGapLeast = 32 * time.Millisecond, 4 * time.Millisecond
	idleGapStep               = 100 * time.Millisecond
	// idleReads is in how many parts it is waited for: where the machine stalls, one part passes and not the whole.
	idleReads = 4
	// oweGap is how often it is looked whether a connection that is owed an answer has got it.
	oweGap = 5 * time.Millisecond
	// readMost is how long a connection without gaps is read. gocql closes its connections a second after it has heard
	// that the node is down, with the requests on them.
	readMost = 900 * time.Millisecond
	// partialWait is how long a client may take to send the rest of a message that has arrived in part.
	partialWait = 2 * time.Second
)

// Shutdown stops accepting connections, answers the others until each is idle, and closes them; all that are left when
// ctx ends.
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

// interrupt wakes the connections that wait for input and do not know of the shutdown; false if there is no connection
// left.
func (s *Server) interrupt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for c := range s.conns {
		if !c.leaving.Load() {
			_ = c.nc.SetReadDeadline(now) // again and again: the end of a handshake resets it
		}
	}
	return len(s.conns) > 0
}

// idleGap is how long a connection has to be idle now to be closed.
func (s *Server) idleGap() time.Duration {
	halved := min(time.Since(s.leavingSince)/idleGapStep, 10)
	return max(idleGapMost>>halved, idleGapLeast)
}

// leave begins an idle gap: the next read of the connection times out at its end. It is false if the connection must
// not be read any more.
func (c *conn) leave() bool {
	c.leaving.Store(true)
	c.idleReads = 0
	c.readFor(c.srv.idleGap() / idleReads)
	return time.Since(c.srv.leavingSince) < readMost
}

// readFor has the next read time out after d.
func (c *conn) readFor(d time.Duration) {
	c.idleUntil = time.Now().Add(d)
	_ = c.nc.SetReadDeadline(c.idleUntil)
}

// answerAll waits until the answers to all requests are written.
func (c *conn) answerAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	c.wait(func() bool { return c.pending.Load() > 0 || c.writing || c.scheduled || len(c.out.Buf) > 0 })
}

// timedOut judges the error of a read. It is errClosing if the connection was idle for the gap, and the client has been
// told with the end of the output; it is nil if the connection has to be read again, because the server has just begun
// to shut down or still owes an answer.
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

// owes reports whether the connection has to be answered, or a message has arrived in part.
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
