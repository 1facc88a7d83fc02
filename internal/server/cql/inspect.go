// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/slowlog"
)

// ErrCancelled ends a connection that an operator has cancelled.
var ErrCancelled = errors.New("the connection was cancelled by an operator")

// SessionInfo is a connection as operators see it.
type SessionInfo struct {
	ClientInfo
	// Number is the connection's own among all of the node, those before a restart included; Since is when it began.
	Number uint64
	Since  time.Time
	// Keyspace is the one of its last USE.
	Keyspace string
	// UnderWay is how many requests are, other than in place.
	UnderWay int
	// Statement is the one that is under way longest, without its constants, and Began when that was; empty and zero if
	// there is none, or if it waits for a worker.
	Statement string
	Began     time.Time
}

// Sessions are the connections that have most to do, at most so many, and how many connections there are. Those come
// first whose oldest request under way is the oldest, then those that have asked most. The server is held up for as
// long as it takes to list its connections, and not while they are looked at.
func (s *Server) Sessions(most int) (list []SessionInfo, all int) {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	type place struct {
		c               *conn
		began, requests int64
	}
	places := make([]place, len(conns))
	for i, c := range conns {
		places[i] = place{c: c, requests: c.requests.Load()}
		if _, began := c.longest(); !began.IsZero() {
			places[i].began = began.UnixNano() - math.MaxInt64 // before those that have nothing under way
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(b.requests, a.requests),
			cmp.Compare(a.c.number, b.c.number))
	})
	for _, p := range places[:min(len(places), max(most, 0))] {
		list = append(list, p.c.inspect())
	}
	return list, len(conns)
}

// inspect is what operators see of the connection.
func (c *conn) inspect() SessionInfo {
	i := SessionInfo{ClientInfo: c.info(), Number: c.number, Since: c.since, UnderWay: int(c.pending.Load())}
	if i.Ready {
		i.Keyspace = c.sess.Keyspace()
	}
	text, began := c.longest()
	i.Statement, i.Began = slowlog.Redact(text), began
	return i
}

// lookedMax is how many of a connection's requests are looked at for one that has begun.
const lookedMax = 64

// longest is the statement that is under way longest, and since when; of the zero time if none has begun.
func (c *conn) longest() (text string, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.oldest
	for n := 0; r != nil && n < lookedMax; n++ {
		if at, since := r.Running(); !since.IsZero() && (began.IsZero() || since.Before(began)) {
			text, began = at, since
		}
		r = r.newer
	}
	return text, began
}

// Cancel ends the connection of a number, and what it has under way; false if there is none. Reads end as soon as they
// notice. A write that is in a log already takes effect: nobody is told of it.
func (s *Server) Cancel(number uint64) (SessionInfo, bool) {
	s.mu.Lock()
	var found *conn
	for c := range s.conns {
		if c.number == number {
			found = c
		}
	}
	s.mu.Unlock()
	if found == nil {
		return SessionInfo{}, false
	}
	i := found.inspect()
	found.fail(ErrCancelled)
	return i, true
}

// ErrLoginEnded ends a connection whose role was dropped, or whose credentials were changed.
var ErrLoginEnded = errors.New("the role of the connection was dropped, or its password or LOGIN was changed")

// EndLogins ends the connections of logged-in clients that ended reports, and returns how many there were. Connections
// of account keys have no role.
func (s *Server) EndLogins(ended func(*access.Login) bool) (count int) {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		client := c.client.Load()
		if client == nil || client.Account {
			continue
		}
		if l := client.Login(); ended(&l) {
			c.fail(ErrLoginEnded)
			count++
		}
	}
	return count
}

// link makes a request the newest of those that are under way. mu is held.
func (c *conn) link(r *request) {
	if r.older = c.newest; r.older != nil {
		r.older.newer = r
	} else {
		c.oldest = r
	}
	c.newest = r
}

// unlink is the opposite, when it is answered. mu is held.
func (c *conn) unlink(r *request) {
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		c.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		c.newest = r.older
	}
	r.older, r.newer = nil, nil
}
