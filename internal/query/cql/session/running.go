// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
)

// recordSlow records a slow request. It does not access the bound values, because they become invalid when a write
// completes.
func (s *Session) recordSlow(c *Call, text string, tables []*schema.Table, took time.Duration) {
	s.engine.opts.Slow.Record(took, func() slowlog.Request {
		r := slowlog.Request{Statement: slowlog.Redact(text), User: s.client.User, Client: s.client.Remote.String(),
			Consistency: c.Request.Consistency.String(), Rows: c.Result.RowCount,
			MorePages: len(c.Result.PagingState) > 0,
			Units:     c.Result.Charge.Float(), Outcome: outcomeName(c.Result.Err)}
		if len(tables) > 0 {
			r.Keyspace, r.Table = tables[0].Keyspace, tables[0].Name
		}
		return r
	})
}

// outcomeName returns the name of an outcome for the slow-query log.
func outcomeName(err error) string {
	var readTimeout *dberr.ReadTimeout
	var writeTimeout *dberr.WriteTimeout
	var unavailable *dberr.Unavailable
	var overloaded *dberr.Overloaded
	var denied *dberr.Unauthorized
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &readTimeout), errors.As(err, &writeTimeout):
		return "timeout"
	case errors.As(err, &unavailable):
		return "unavailable"
	case errors.As(err, &overloaded):
		return "overloaded"
	case errors.As(err, &denied):
		return "not allowed"
	}
	return "failed"
}

// setRunning sets the statement and the start time that Running returns. For a batch message, st is nil.
func (c *Call) setRunning(st *statement, began time.Time) {
	c.statement.Store(st)
	c.began.Store(began.UnixNano())
}

// Running returns the display text and the start time of the running statement. If no statement is running, Running
// returns an empty text and the zero time. Running is safe for concurrent use.
func (c *Call) Running() (text string, since time.Time) {
	began := c.began.Load()
	if began == 0 {
		return "", time.Time{}
	}
	since = time.Unix(0, began)
	if st := c.statement.Load(); st != nil {
		return st.display, since
	}
	return "BATCH", since
}

// ClearRunning removes the running statement. It is called when the call is complete.
func (c *Call) ClearRunning() {
	if c.began.Load() != 0 {
		c.began.Store(0)
		c.statement.Store(nil)
	}
}

// Keyspace returns the keyspace of the session, or an empty string if none is set.
func (s *Session) Keyspace() string {
	if k := s.keyspace.Load(); k != nil {
		return *k
	}
	return ""
}
