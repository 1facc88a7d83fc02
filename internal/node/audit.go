// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// auditDir is the subdirectory of the data directory that holds the audit log.
const auditDir = "audit"

// openAudit opens the audit log if it is enabled.
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

// auditRequest writes a CQL request to the audit log.
func (n *Node) auditRequest(a *session.AuditEntry) {
	n.audit.Write(&audit.Entry{
		User: a.Client.User, Host: a.Client.Local, Source: a.Client.Remote, At: time.Now(), Type: a.Type,
		Category: a.Category, Keyspace: a.Keyspace, Table: a.Table, Operation: a.Text, Err: a.Err,
	})
}

// auditREST writes an HTTP request to the audit log. It uses the categories of CQL and the name of the signing key as
// the user.
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

// auditLogin writes a login attempt to the audit log if it is enabled.
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

// logSecurityEvent logs changes of roles and permissions, and denied requests, whether or not the audit log is enabled.
func (n *Node) logSecurityEvent(a *session.AuditEntry) {
	attrs := []slog.Attr{slog.String("role", a.Client.User), slog.String("from", a.Client.Remote.String()),
		slog.String("type", a.Type)}
	switch {
	case a.Type == "UNAUTHORIZED_ATTEMPT":
		omitted, ok := n.deniedLog.Count("")
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", a.Err.Error()), slog.Int("omitted", omitted))
		n.log.LogAttrs(context.Background(), slog.LevelWarn, "request not allowed", attrs...)
	case a.Err == nil && a.Type != "LIST_ROLES" && a.Type != "LIST_USERS" && a.Type != "LIST_PERMISSIONS":
		attrs = append(attrs, slog.String("statement", a.Text))
		n.log.LogAttrs(context.Background(), slog.LevelInfo, "roles or permissions changed", attrs...)
	}
}
