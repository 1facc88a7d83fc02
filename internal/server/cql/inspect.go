// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
)

// ErrCancelled is the reason for closing a connection that an operator has canceled.
var ErrCancelled = errors.New("the connection was canceled by an operator")

// ClientInfo describes a connection for system_views.clients.
type ClientInfo struct {
	session.Client
	// Keyspace is the keyspace that USE selected, or empty.
	Keyspace string
	// Requests is the number of requests so far.
	Requests int64
	// Ready is false during the handshake. Most fields of Client are unknown during the handshake.
	Ready bool
}

// Clients lists the connections, in no particular order.
func (s *Server) Clients() []ClientInfo {
	conns := s.connections()
	l := make([]ClientInfo, len(conns))
	for i, c := range conns {
		l[i] = c.info()
	}
	return l
}

// SessionInfo describes a connection for operators.
type SessionInfo struct {
	ClientInfo
	// Number is unique among all connections of the node, including the connections before a restart. Since is the
	// time at which the connection was accepted.
	Number uint64
	Since  time.Time
	// UnderWay is the number of asynchronous requests in flight.
	UnderWay int
	// Statement is the longest running statement without its constants. Began is its start time. Both fields are zero
	// if no statement is running.
	Statement string
	Began     time.Time
}

// Sessions returns up to most of the busiest connections, and the total number of connections. Connections are ordered
// by the age of their oldest request in flight, and then by their number of requests. The function holds the server
// lock while it lists the connections, but not while it inspects them.
func (s *Server) Sessions(most int) (list []SessionInfo, all int) {
	conns := s.connections()
	type place struct {
		c               *conn
		began, requests int64
	}
	places := make([]place, len(conns))
	for i, c := range conns {
		places[i] = place{c: c, requests: c.requests.Load()}
		if _, began := c.exec.longest(); !began.IsZero() {
			places[i].began = began.UnixNano() - math.MaxInt64 // sort it before connections without requests in flight
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

// info describes the connection for system_views.clients.
func (c *conn) info() ClientInfo {
	i := ClientInfo{Requests: c.requests.Load()}
	if client := c.client.Load(); client != nil {
		i.Client, i.Ready, i.Keyspace = *client, true, c.exec.sess.Keyspace()
	} else {
		i.Client = session.Client{Remote: c.remote, Local: c.local, Encrypted: c.srv.opts.TLS != nil}
	}
	return i
}

// inspect returns the information about the connection.
func (c *conn) inspect() SessionInfo {
	i := SessionInfo{ClientInfo: c.info(), Number: c.number, Since: c.since, UnderWay: int(c.exec.pending.Load())}
	text, began := c.exec.longest()
	i.Statement, i.Began = slowlog.Redact(text), began
	return i
}

// Cancel closes the connection with the given number and cancels its requests. Cancel returns false if the connection
// does not exist. Reads end as soon as they notice the cancellation. A write that is already in a log takes effect,
// but the server does not send the response.
func (s *Server) Cancel(number uint64) (SessionInfo, bool) {
	for _, c := range s.connections() {
		if c.number == number {
			i := c.inspect()
			c.out.fail(ErrCancelled)
			return i, true
		}
	}
	return SessionInfo{}, false
}

// ErrLoginEnded is the reason for closing a connection whose role was dropped or whose credentials changed.
var ErrLoginEnded = errors.New("the role of the connection was dropped, or its password or LOGIN was changed")

// EndLogins closes the connections of logged-in clients for which ended returns true, and returns their number.
// Connections of account keys have no role.
func (s *Server) EndLogins(ended func(*access.Login) bool) (count int) {
	for _, c := range s.connections() {
		client := c.client.Load()
		if client == nil || client.Account {
			continue
		}
		if l := client.Login(); ended(&l) {
			c.out.fail(ErrLoginEnded)
			count++
		}
	}
	return count
}
