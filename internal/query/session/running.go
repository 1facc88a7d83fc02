// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/slowlog"
)

// noteSlow keeps what a slow request was. Its values are not looked at: they are gone when a write completes.
func (s *Session) recordSlow(c *Call, text string, tables []*schema.Table, took time.Duration) {
	s.engine.opts.Slow.Record(took, func() slowlog.Request {
		r := slowlog.Request{Statement: slowlog.Redact(text), User: s.client.User, Client: s.client.Remote.String(),
			Consistency: c.Request.Consistency.String(), Rows: c.Result.RowCount, MorePages: len(c.Result.PagingState) > 0,
			Units: c.Result.Charge.Float(), Outcome: outcomeName(c.Result.Err)}
		if len(tables) > 0 {
			r.Keyspace, r.Table = tables[0].Keyspace, tables[0].Name
		}
		return r
	})
}

// outcomeWord is what became of a request, in a word.
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

// underWay says that a call takes a while: from now on UnderWay tells of it. st is nil for a batch message.
func (c *Call) setRunning(st *statement, began time.Time) {
	c.statement.Store(st)
	c.began.Store(began.UnixNano())
}

// UnderWay is the statement that a call executes, as display has it, and since when. It is empty, and of the zero
// time, where that is not known yet. It may be called at any time, by anybody.
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

// Forget has UnderWay tell of nothing: the call is over.
func (c *Call) ClearRunning() {
	if c.began.Load() != 0 {
		c.began.Store(0)
		c.statement.Store(nil)
	}
}

// Keyspace is the one that statements without a keyspace are in, empty if there is none.
func (s *Session) Keyspace() string {
	if k := s.keyspace.Load(); k != nil {
		return *k
	}
	return ""
}
