// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/roles"
)

// Audited is a request that is over, as Options.Audit is told of it.
type Audited struct {
	Client *Client
	// Type and Category are what Cassandra's audit log calls the request: SELECT and QUERY, say; what failed is a
	// REQUEST_FAILURE of category ERROR, what was not allowed an UNAUTHORIZED_ATTEMPT of category AUTH.
	Type, Category string
	// Keyspace and Table are what it was about, empty if that is not one.
	Keyspace, Table string
	// Text is the statement, without passwords.
	Text string
	// Err is nil if it was done.
	Err error
}

// audit tells of a request that is over, if somebody wants to know. st is nil where there is no statement; text is what
// was asked for then.
func (s *Session) audit(st *statement, err error, kind string, text string) {
	o := &s.engine.opts
	if o.Audit == nil && o.Notable == nil {
		return
	}
	denied := false
	if err != nil {
		_, denied = errors.AsType[*dberr.Unauthorized](err)
	}
	rights := st != nil && st.kind == KindOther && roles.Handles(st.parsed)
	if o.Audit == nil && !denied && !rights {
		return
	}
	a := Audited{Client: &s.client, Type: kind, Category: "PREPARE", Text: text, Err: err}
	secret := rights
	if st != nil {
		if kind == "" {
			a.Type, a.Category, a.Text = "", "", st.text
			a.describe(st)
		} else if len(st.tables) > 0 {
			a.Keyspace, a.Table = st.tables[0].Keyspace, st.tables[0].Name
		}
	} else {
		secret = mentionsRole(text)
		if kind == "BATCH" {
			a.Category = "DML"
		}
	}
	switch {
	case denied:
		a.Type, a.Category = "UNAUTHORIZED_ATTEMPT", "AUTH"
	case err != nil:
		a.Type, a.Category = "REQUEST_FAILURE", "ERROR"
	}
	if secret {
		a.Text = withoutPassword(a.Text)
	}
	if o.Audit != nil {
		o.Audit(&a)
	}
	if o.Notable != nil && (denied || rights) {
		o.Notable(&a)
	}
}

// mentionsRole reports whether a text that could not be parsed may have been one with a password.
func mentionsRole(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "role") || strings.Contains(text, "user")
}

// withoutPassword ends a text at its password: whatever follows may be a part of it, if there is a mistake in the
// quotes.
func withoutPassword(text string) string {
	const word = "password"
	if i := strings.Index(strings.ToLower(text), word); i >= 0 && i+len(word) <= len(text) {
		return text[:i+len(word)] + " *******"
	}
	return text
}

// describe fills in what a statement is and what it is about.
func (a *Audited) describe(st *statement) {
	if len(st.tables) > 0 {
		a.Keyspace, a.Table = st.tables[0].Keyspace, st.tables[0].Name
	}
	on := func(name parser.QualifiedName) { a.Keyspace, a.Table = keyspaceOf(name, st.keyspace), name.Name.Name }
	a.Category = "DDL"
	switch s := st.parsed.(type) {
	case *parser.Select:
		a.Type, a.Category = "SELECT", "QUERY"
	case *parser.Insert, *parser.Update:
		a.Type, a.Category = "UPDATE", "DML"
	case *parser.Delete:
		a.Type, a.Category = "DELETE", "DML"
	case *parser.Batch:
		a.Type, a.Category = "BATCH", "DML"
	case *parser.Truncate:
		a.Type = "TRUNCATE"
		on(s.Table)
	case *parser.Use:
		a.Type, a.Category, a.Keyspace = "USE_KEYSPACE", "OTHER", s.Keyspace.Name
	case *parser.Describe:
		a.Type, a.Category = "DESCRIBE", "OTHER"
	case *parser.CreateKeyspace:
		a.Type, a.Keyspace = "CREATE_KEYSPACE", s.Name.Name
	case *parser.AlterKeyspace:
		a.Type, a.Keyspace = "ALTER_KEYSPACE", s.Name.Name
	case *parser.DropKeyspace:
		a.Type, a.Keyspace = "DROP_KEYSPACE", s.Name.Name
	case *parser.CreateTable:
		a.Type = "CREATE_TABLE"
		on(s.Name)
	case *parser.AlterTable:
		a.Type = "ALTER_TABLE"
		on(s.Name)
	case *parser.DropTable:
		a.Type = "DROP_TABLE"
		on(s.Name)
	case *parser.CreateIndex:
		a.Type = "CREATE_INDEX"
		on(s.Table)
	case *parser.DropIndex:
		a.Type = "DROP_INDEX"
		on(s.Name)
	case *parser.CreateType:
		a.Type = "CREATE_TYPE"
		on(s.Name)
	case *parser.AlterType:
		a.Type = "ALTER_TYPE"
		on(s.Name)
	case *parser.DropType:
		a.Type = "DROP_TYPE"
		on(s.Name)
	default:
		a.describeRights(st.parsed)
	}
}

func (a *Audited) describeRights(parsed parser.Statement) {
	if roles.Handles(parsed) {
		a.Category = "DCL"
	}
	pick := func(second bool, one, other string) string {
		if second {
			return other
		}
		return one
	}
	switch s := parsed.(type) {
	case *parser.CreateRole:
		a.Type = "CREATE_ROLE"
	case *parser.AlterRole:
		a.Type = "ALTER_ROLE"
	case *parser.DropRole:
		a.Type = "DROP_ROLE"
	case *parser.AddIdentity:
		a.Type = "ADD_IDENTITY"
	case *parser.DropIdentity:
		a.Type = "DROP_IDENTITY"
	case *parser.GrantPermissions:
		a.Type = pick(s.Revoke, "GRANT", "REVOKE")
	case *parser.GrantRole:
		a.Type = pick(s.Revoke, "GRANT", "REVOKE")
	case *parser.ListPermissions:
		a.Type = "LIST_PERMISSIONS"
	case *parser.ListRoles:
		a.Type = "LIST_ROLES"
	case *parser.ListUsers:
		a.Type = "LIST_USERS"
	default:
		a.Type = "OTHER"
	}
}
