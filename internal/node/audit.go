// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// auditDir is where the files of the audit log are, in the data directory.
const auditDir = "audit"

// openAudit opens the audit log if there is to be one.
func (n *Node) openAudit() (err error) {
	o := &n.opts.Audit
	if !o.Enabled {
		return nil
	}
	n.audit, err = audit.Open(*o, filepath.Join(n.opts.Data, auditDir), n.log)
	if err == nil {
		n.closers = append(n.closers, n.audit.Close)
	}
	return err
}

// auditRequest writes a request of CQL into the audit log.
func (n *Node) auditRequest(a *session.AuditEntry) {
	n.audit.Write(&audit.Entry{
		User: a.Client.User, Host: a.Client.Local, Source: a.Client.Remote, At: time.Now(), Type: a.Type,
		Category: a.Category, Keyspace: a.Keyspace, Table: a.Table, Operation: a.Text, Err: a.Err,
	})
}

// auditREST writes a request over HTTP into the audit log: its categories are those of CQL, and its user is the name of
// the key that signed it.
func (n *Node) auditREST(a *rest.Audited) {
	e := audit.Entry{User: a.Key, Host: a.Local, Source: a.Remote, At: time.Now(), Keyspace: a.Database,
		Table: a.Container, Operation: a.Text, Status: a.Status,
		Type: strings.ToUpper(strings.ReplaceAll(a.Operation, " ", "_")), Category: "DDL"}
	switch {
	case a.Key == "":
		e.Type, e.Category = "LOGIN_ERROR", "AUTH"
	case a.Status == http.StatusForbidden:
		e.Type, e.Category = "UNAUTHORIZED_ATTEMPT", "AUTH"
	case a.Status >= http.StatusBadRequest:
		e.Type, e.Category = "REQUEST_FAILURE", "ERROR"
	case a.Reads:
		e.Category = "QUERY"
	case a.Items || a.Operation == "execute stored procedure":
		e.Category = "DML"
	}
	n.audit.Write(&e)
}

// auditLogin writes an attempt to log in into the audit log, if there is one.
func (n *Node) auditLogin(from netip.Addr, name string, outcome error) {
	if n.audit == nil {
		return
	}
	e := audit.Entry{User: name, Host: n.info.RPC, Source: netip.AddrPortFrom(from, 0), At: time.Now(),
		Type: "LOGIN_SUCCESS", Category: "AUTH", Operation: "LOGIN SUCCESSFUL", Err: outcome}
	if outcome != nil {
		e.Type, e.Operation = "LOGIN_ERROR", "LOGIN FAILURE"
	}
	n.audit.Write(&e)
}

// notices bounds the lines about what was not allowed: one a second, which says how many there were.
type notices struct{ second, omitted atomic.Int64 }

// allow reports whether there may be another line now, and how many were left out since the last.
func (q *notices) allow(now time.Time) (omitted int64, ok bool) {
	if last := q.second.Load(); now.Unix() == last || !q.second.CompareAndSwap(last, now.Unix()) {
		q.omitted.Add(1)
		return 0, false
	}
	return q.omitted.Swap(0), true
}

// notable logs changes of roles and permissions, and requests that were not allowed, whether there is an audit log or
// not.
func (n *Node) notable(a *session.AuditEntry) {
	attrs := []slog.Attr{slog.String("role", a.Client.User), slog.String("from", a.Client.Remote.String()),
		slog.String("type", a.Type)}
	switch {
	case a.Type == "UNAUTHORIZED_ATTEMPT":
		omitted, ok := n.denials.allow(time.Now())
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", a.Err.Error()), slog.Int64("omitted", omitted))
		n.log.LogAttrs(context.Background(), slog.LevelWarn, "request not allowed", attrs...)
	case a.Err == nil && a.Type != "LIST_ROLES" && a.Type != "LIST_USERS" && a.Type != "LIST_PERMISSIONS":
		attrs = append(attrs, slog.String("statement", a.Text))
		n.log.LogAttrs(context.Background(), slog.LevelInfo, "roles or permissions changed", attrs...)
	}
}
