// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/control/lograte"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// CQLAuditor records CQL requests. CQLAuditor implements session.Auditor.
type CQLAuditor struct {
	// Log records all requests. Log is nil if the audit log is disabled.
	Log *Log
	// Security logs changes of roles and denied requests. Security is nil if authentication is disabled.
	Security *SecurityLogger
}

// AuditsAll implements session.Auditor.
func (a CQLAuditor) AuditsAll() bool { return a.Log != nil }

// Audit implements session.Auditor.
func (a CQLAuditor) Audit(e *session.AuditEntry, security bool) {
	if a.Log != nil {
		a.Log.WriteCQL(e)
	}
	if security && a.Security != nil {
		a.Security.LogEvent(e)
	}
}

// WriteCQL writes a CQL request.
func (l *Log) WriteCQL(a *session.AuditEntry) {
	l.Write(&Entry{
		User: a.Client.User, Host: a.Client.Local, Source: a.Client.Remote, At: time.Now(), Type: a.Type,
		Category: a.Category, Keyspace: a.Keyspace, Table: a.Table, Operation: a.Text, Err: a.Err,
	})
}

// WriteREST writes a REST request. It uses the categories of CQL. The user is the name of the signing key,
// or the path of a permission.
func (l *Log) WriteREST(a *rest.Audited) {
	e := Entry{User: a.Key, Host: a.Local, Source: a.Remote, At: time.Now(), Keyspace: a.Database,
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
	case strings.HasSuffix(a.Operation, " user") || strings.HasSuffix(a.Operation, " permission"):
		e.Category = "DCL"
	}
	l.Write(&e)
}

// WriteLogin writes a login attempt at the address host. outcome is nil if the attempt succeeded. A nil Log writes
// nothing.
func (l *Log) WriteLogin(host netip.AddrPort, from netip.Addr, name string, outcome error) {
	if l == nil {
		return
	}
	e := Entry{User: name, Host: host, Source: netip.AddrPortFrom(from, 0), At: time.Now(),
		Type: "LOGIN_SUCCESS", Category: "AUTH", Operation: "LOGIN SUCCESSFUL", Err: outcome}
	if outcome != nil {
		e.Type, e.Operation = "LOGIN_ERROR", "LOGIN FAILURE"
	}
	l.Write(&e)
}

// SecurityLogger logs changes of roles and permissions, and denied requests. It does so regardless of whether the
// audit log is enabled.
type SecurityLogger struct {
	log    *slog.Logger
	denied lograte.Limiter
}

// NewSecurityLogger returns a SecurityLogger that logs at most one denied request per second.
func NewSecurityLogger(log *slog.Logger) *SecurityLogger {
	return &SecurityLogger{log: log, denied: lograte.Limiter{Interval: time.Second}}
}

// LogEvent logs a CQL request that changed roles or permissions, or that was denied.
func (s *SecurityLogger) LogEvent(a *session.AuditEntry) {
	attrs := []slog.Attr{slog.String("role", a.Client.User), slog.String("from", a.Client.Remote.String()),
		slog.String("type", a.Type)}
	switch {
	case a.Type == "UNAUTHORIZED_ATTEMPT":
		omitted, ok := s.denied.Count("")
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", a.Err.Error()), slog.Int("omitted", omitted))
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "request not allowed", attrs...)
	case a.Err == nil && a.Type != "LIST_ROLES" && a.Type != "LIST_USERS" && a.Type != "LIST_PERMISSIONS":
		attrs = append(attrs, slog.String("statement", a.Text))
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "roles or permissions changed", attrs...)
	}
}
