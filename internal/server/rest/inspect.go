// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// doing describes the current request of a connection for other goroutines.
type doing struct {
	// began is the start time of the request in Unix nanoseconds. It is 0 if the connection has no request.
	began     atomic.Int64
	requests  atomic.Int64
	operation atomic.Pointer[operation]
	target    atomic.Pointer[target]
	// client identifies the client. client is nil until the client has sent a valid signature.
	client atomic.Pointer[clientID]
}

// clientID consists of the key and the user agent of the first request of a connection.
type clientID struct{ key, agent string }

func (d *doing) begin(now time.Time) {
	d.requests.Add(1)
	d.began.Store(now.UnixNano())
}

func (d *doing) end() {
	d.began.Store(0)
	d.operation.Store(nil)
	d.target.Store(nil)
}

// SessionInfo describes a connection for operators.
type SessionInfo struct {
	// Number identifies the connection on the node, even across restarts. Since is the start time of the connection.
	Number uint64
	Since  time.Time
	Remote netip.AddrPort
	// Encrypted reports whether the connection uses TLS.
	Encrypted bool
	// Key is the name of the key that signed the first request. It is empty if no request has been signed. Agent is
	// the User-Agent header of that request.
	Key, Agent string
	// Requests is the number of requests.
	Requests int64
	// Request is the operation of the current request with its database and container. It contains no item IDs and no
	// query texts. Began is the start time of the current request. If the connection has no request, Request is empty,
	// and Began is zero.
	Request string
	Began   time.Time
}

// Sessions returns up to most connections and the total number of connections. The connection with the oldest request
// is first. Connections without a request follow in descending order of their request counts.
func (s *Server) Sessions(most int) (list []SessionInfo, all int) {
	s.each(func(c *conn) { list = append(list, c.inspect()) })
	began := func(i *SessionInfo) int64 {
		if i.Began.IsZero() {
			return math.MaxInt64
		}
		return i.Began.UnixNano()
	}
	slices.SortFunc(list, func(a, b SessionInfo) int {
		return cmp.Or(cmp.Compare(began(&a), began(&b)), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Number, b.Number))
	})
	return list[:min(len(list), max(most, 0))], len(list)
}

// inspect describes the connection.
func (c *conn) inspect() SessionInfo {
	i := SessionInfo{Number: c.number, Since: c.since, Remote: c.clientConn.remote, Encrypted: c.server.opts.TLS != nil,
		Requests: c.doing.requests.Load()}
	if id := c.doing.client.Load(); id != nil {
		i.Key, i.Agent = id.key, id.agent
	}
	began := c.doing.began.Load()
	if began == 0 {
		return i
	}
	i.Began = time.Unix(0, began)
	op, t := c.doing.operation.Load(), c.doing.target.Load()
	if op == nil || t == nil {
		return i
	}
	i.Request = op.name
	if db := t.database(); db != "" {
		i.Request += " dbs/" + db
		if coll := t.container(); coll != "" {
			i.Request += "/colls/" + coll
		}
	}
	return i
}

// Cancel closes the connection with the given number and cancels its request. It returns false if the connection does
// not exist. A write that has reached a log still takes effect.
func (s *Server) Cancel(number uint64) (SessionInfo, bool) {
	var found *conn
	s.each(func(c *conn) {
		if c.number == number {
			found = c
		}
	})
	if found == nil {
		return SessionInfo{}, false
	}
	i := found.inspect()
	found.cancel()
	_ = found.clientConn.Conn.Close() // the connection's goroutine releases the slot
	return i, true
}
