// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"reflect"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
)

// Auditor records completed requests.
type Auditor interface {
	// AuditsAll reports whether Audit is called for every request. If AuditsAll returns false, Audit is called only for
	// unauthorized requests and for role statements.
	AuditsAll() bool
	// Audit records a request. It must not retain the entry. If the client lacked a permission or sent a role
	// statement, security is true.
	Audit(e *AuditEntry, security bool)
}

func (o *Options) auditsAll() bool { return o.Auditor != nil && o.Auditor.AuditsAll() }

// AuditEntry describes a completed request.
type AuditEntry struct {
	Client *Client
	// Type and Category are the names that Cassandra's audit log uses, for example SELECT and QUERY. A failed request
	// has the type REQUEST_FAILURE and the category ERROR. An unauthorized request has the type UNAUTHORIZED_ATTEMPT
	// and the category AUTH.
	Type, Category string
	// Keyspace and Table name the object of the request, or are empty if the request has no single object.
	Keyspace, Table string
	// Text is the statement without passwords.
	Text string
	// Err is nil if the request succeeded.
	Err error
}

// audit reports a completed request to the auditor, if one is configured. For a request without a statement, st is nil
// and text contains the display text.
func (s *Session) audit(st *statement, err error, kind string, text string) {
	o := &s.engine.opts
	if o.Auditor == nil {
		return
	}
	denied := false
	if err != nil {
		_, denied = errors.AsType[*dberr.Unauthorized](err)
	}
	rights := st != nil && st.kind == KindOther && roles.Handles(st.parsed)
	if !denied && !rights && !o.auditsAll() {
		return
	}
	a := AuditEntry{Client: &s.client, Type: kind, Category: "PREPARE", Text: text, Err: err}
	if st != nil {
		a.Text = st.display
		if kind == "" {
			a.Type, a.Category = "", ""
			a.describe(st)
		} else if len(st.tables) > 0 {
			a.Keyspace, a.Table = st.tables[0].Keyspace, st.tables[0].Name
		}
	} else if kind == "BATCH" {
		a.Category = "DML"
	}
	switch {
	case denied:
		a.Type, a.Category = "UNAUTHORIZED_ATTEMPT", "AUTH"
	case err != nil:
		a.Type, a.Category = "REQUEST_FAILURE", "ERROR"
	}
	o.Auditor.Audit(&a, denied || rights)
}

// describe sets the type, category, and object of a statement.
func (a *AuditEntry) describe(st *statement) {
	if len(st.tables) > 0 {
		a.Keyspace, a.Table = st.tables[0].Keyspace, st.tables[0].Name
	}
	kind, ok := kinds[reflect.TypeOf(st.parsed)]
	if !ok {
		kind = auditKind{name: "OTHER", category: "DDL"}
	}
	a.Type, a.Category = kind.name, kind.category
	if revokes(st.parsed) {
		a.Type = "REVOKE"
	}
	if kind.target != nil {
		a.Keyspace, a.Table = kind.target(st)
	}
}

// auditKind holds the audit log's classification of a statement type.
type auditKind struct {
	name, category string
	// target returns the keyspace and table that the statement names. The argument may be nil.
	target func(*statement) (keyspace, table string)
}

type kindEntry struct {
	statement reflect.Type
	kind      auditKind
}

// kinds maps statement types to their classification.
var kinds = func(entries ...kindEntry) map[reflect.Type]auditKind {
	out := map[reflect.Type]auditKind{}
	for _, e := range entries {
		out[e.statement] = e.kind
	}
	return out
}(
	ofKind[*parser.Select]("SELECT", "QUERY"),
	ofKind[*parser.Insert]("UPDATE", "DML"),
	ofKind[*parser.Update]("UPDATE", "DML"),
	ofKind[*parser.Delete]("DELETE", "DML"),
	ofKind[*parser.Batch]("BATCH", "DML"),
	ofKind[*parser.Transaction]("TRANSACTION", "DML"),
	ofKind[*parser.Call]("CALL", "DML"),
	ofKind[*parser.Describe]("DESCRIBE", "OTHER"),
	ofKind[*parser.Explain]("EXPLAIN", "OTHER"),
	aboutKeyspace("USE_KEYSPACE", "OTHER", func(s *parser.Use) string { return s.Keyspace.Name }),
	aboutKeyspace("CREATE_KEYSPACE", "DDL", func(s *parser.CreateKeyspace) string { return s.Name.Name }),
	aboutKeyspace("ALTER_KEYSPACE", "DDL", func(s *parser.AlterKeyspace) string { return s.Name.Name }),
	aboutKeyspace("DROP_KEYSPACE", "DDL", func(s *parser.DropKeyspace) string { return s.Name.Name }),
	aboutName("TRUNCATE", func(s *parser.Truncate) parser.QualifiedName { return s.Table }),
	aboutName("CREATE_TABLE", func(s *parser.CreateTable) parser.QualifiedName { return s.Name }),
	aboutName("ALTER_TABLE", func(s *parser.AlterTable) parser.QualifiedName { return s.Name }),
	aboutName("DROP_TABLE", func(s *parser.DropTable) parser.QualifiedName { return s.Name }),
	aboutName("CREATE_INDEX", func(s *parser.CreateIndex) parser.QualifiedName { return s.Table }),
	aboutName("DROP_INDEX", func(s *parser.DropIndex) parser.QualifiedName { return s.Name }),
	aboutName("CREATE_TYPE", func(s *parser.CreateType) parser.QualifiedName { return s.Name }),
	aboutName("ALTER_TYPE", func(s *parser.AlterType) parser.QualifiedName { return s.Name }),
	aboutName("DROP_TYPE", func(s *parser.DropType) parser.QualifiedName { return s.Name }),
	ofKind[*parser.CreateRole]("CREATE_ROLE", "DCL"),
	ofKind[*parser.AlterRole]("ALTER_ROLE", "DCL"),
	ofKind[*parser.DropRole]("DROP_ROLE", "DCL"),
	ofKind[*parser.AddIdentity]("ADD_IDENTITY", "DCL"),
	ofKind[*parser.DropIdentity]("DROP_IDENTITY", "DCL"),
	ofKind[*parser.GrantPermissions]("GRANT", "DCL"),
	ofKind[*parser.GrantRole]("GRANT", "DCL"),
	ofKind[*parser.ListPermissions]("LIST_PERMISSIONS", "DCL"),
	ofKind[*parser.ListRoles]("LIST_ROLES", "DCL"),
	ofKind[*parser.ListUsers]("LIST_USERS", "DCL"),
)

func ofKind[S parser.Statement](name, category string) kindEntry {
	return kindEntry{reflect.TypeFor[S](), auditKind{name: name, category: category}}
}

func aboutKeyspace[S parser.Statement](name, category string, keyspace func(S) string) kindEntry {
	e := ofKind[S](name, category)
	e.kind.target = func(st *statement) (string, string) { return keyspace(st.parsed.(S)), "" }
	return e
}

func aboutName[S parser.Statement](name string, of func(S) parser.QualifiedName) kindEntry {
	e := ofKind[S](name, "DDL")
	e.kind.target = func(st *statement) (string, string) {
		n := of(st.parsed.(S))
		return keyspaceOf(n, st.keyspace), n.Name.Name
	}
	return e
}

// revokes reports whether a grant statement is a REVOKE.
func revokes(parsed parser.Statement) bool {
	switch s := parsed.(type) {
	case *parser.GrantPermissions:
		return s.Revoke
	case *parser.GrantRole:
		return s.Revoke
	}
	return false
}
