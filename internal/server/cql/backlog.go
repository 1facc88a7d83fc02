// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// The backlog is the memory of responses that clients have not read. A limit for each connection is not sufficient,
// because responses can be large and connections are numerous. Options.BacklogMax therefore also limits the total
// backlog. Above the limit, the server does not read from a client that has unread responses. Sessions end their pages
// early (Server.Pressed). The server disconnects clients that have not read for some time. It starts with the largest
// backlog and stops when the total is well below the limit. Clients that read are not affected. If the backlog exceeds
// twice the limit, the requests of all clients wait. After backlogWait, the waiting requests are rejected.

const (
	// backlogStep is the maximum difference between a connection's share and the counted value, in bytes.
	backlogStep = 16 << 10
	// backlogPatience is the time for which a client may block a write while other clients wait for memory. During this
	// time, a client must read about one megabyte per second to avoid being disconnected.
	backlogPatience = 300 * time.Millisecond
	// backlogWait is the maximum time for which a request waits until other clients have read their responses or have
	// been disconnected.
	backlogWait = time.Second
	// reliefEvery is the interval between two searches for clients to disconnect.
	reliefEvery = 100 * time.Millisecond
)

var errBacklog error = &dberr.Overloaded{Message: "Too many bytes of responses are waiting for clients to read them"}

// Pressed reports whether the backlog exceeds its limit. In this case, sessions must not read more data for clients
// than necessary.
func (s *Server) Pressed() bool { return s.stats.Backlog.Load() > s.opts.BacklogMax }

// account counts the connection's share of the backlog in whole buffers. Otherwise, a client could leave little data
// in each of many buffers. The caller must hold mu.
func (o *output) account() {
	share := int64(o.unsent)
	if o.unsent > 0 || len(o.w.Buf) > backlogStep {
		share += int64(cap(o.w.Buf))
	}
	if d := share - o.counted; d >= backlogStep || d <= -backlogStep || share == 0 && d != 0 {
		o.counted = share
		if o.srv.stats.Backlog.Add(d) > o.srv.opts.BacklogMax && o.srv.relieving.CompareAndSwap(false, true) {
			time.AfterFunc(reliefEvery, o.srv.relieve)
		}
	}
}

// yield must be called before a request is executed while the backlog exceeds its limit. It waits until the client has
// read its responses and the backlog is below twice its limit. It returns an error if the wait exceeds backlogWait.
func (o *output) yield(ctx context.Context) error {
	o.flushUntil(func() bool { return !o.writing && len(o.w.Buf) == 0 })
	s := o.srv
	if s.stats.Backlog.Load() <= 2*s.opts.BacklogMax {
		return nil
	}
	o.sock.held.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waited := time.Now(); s.stats.Backlog.Load() > 2*s.opts.BacklogMax; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errBacklog
		}
		if time.Since(waited) > backlogWait {
			return errBacklog
		}
	}
	return nil
}

// relieve disconnects clients that do not read while the backlog exceeds its limit.
func (s *Server) relieve() {
	if !s.Pressed() || s.ctx.Err() != nil {
		s.relieving.Store(false)
		return
	}
	defer time.AfterFunc(reliefEvery, s.relieve)
	now := time.Now()
	type debtor struct {
		o     *output
		share int64
	}
	var stalled []debtor
	s.mu.Lock()
	for c := range s.conns {
		if o := &c.out; o.sock.stalled(now) {
			o.mu.Lock()
			stalled = append(stalled, debtor{o, o.counted})
			o.mu.Unlock()
		}
	}
	s.mu.Unlock()
	slices.SortFunc(stalled, func(a, b debtor) int { return int(b.share - a.share) })
	excess := s.stats.Backlog.Load() - s.opts.BacklogMax*3/4
	for _, d := range stalled {
		if excess <= 0 {
			return
		}
		excess -= d.share
		d.o.fail(fmt.Errorf("%w: it has not read %d bytes of responses, and too many bytes are waiting for all clients", ErrSlowClient,
			d.share))
	}
}
