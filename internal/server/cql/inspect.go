// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
)

// ErrCancelled is the reason for closing a connection that an operator has canceled.
var ErrCancelled = errors.New("the connection was canceled by an operator")

// SessionInfo describes a connection for operators.
type SessionInfo struct {
	ClientInfo
	// Number is unique among all connections of the node, including those before a restart. Since is the time at which
	// the connection was accepted.
	Number uint64
	Since  time.Time
	// Keyspace is the keyspace of the last USE statement.
	Keyspace string
	// UnderWay is the number of asynchronous requests in flight.
	UnderWay int
	// Statement is the longest running statement, without its constants, and Began its start time. Both are zero if no
	// statement is running.
	Statement string
	Began     time.Time
}

// Sessions returns up to most of the busiest connections, and the total number of connections. Connections are ordered
// by the age of their oldest request in flight, then by their number of requests. The server lock is held while the
// connections are listed, but not while they are inspected.
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
			places[i].began = began.UnixNano() - math.MaxInt64 // before connections without requests in flight
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

// inspect returns the information about the connection.
func (c *conn) inspect() SessionInfo {
	i := SessionInfo{ClientInfo: c.info(), Number: c.number, Since: c.since, UnderWay: int(c.pending.Load())}
	if i.Ready {
		i.Keyspace = c.sess.Keyspace()
	}
	text, began := c.longest()
	i.Statement, i.Began = slowlog.Redact(text), began
	return i
}

// lookedMax is the number of a connection's requests that are searched for a running one.
const lookedMax = 64

// longest returns the longest running statement and its start time, or the zero time if no statement is running.
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

// Cancel closes the connection with a number and cancels its requests. It returns false if there is no such
// connection. Reads end as soon as they notice. A write that is already in a log takes effect, without a response.
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

// ErrLoginEnded is the reason for closing a connection whose role was dropped or whose credentials were changed.
var ErrLoginEnded = errors.New("the role of the connection was dropped, or its password or LOGIN was changed")

// EndLogins closes the connections of logged-in clients for which ended returns true, and returns their number.
// Connections of account keys have no role.
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

// link appends a request to the list of requests in flight. mu must be held.
func (c *conn) link(r *request) {
	if r.older = c.newest; r.older != nil {
		r.older.newer = r
	} else {
		c.oldest = r
	}
	c.newest = r
}

// unlink removes a completed request from the list. mu must be held.
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
