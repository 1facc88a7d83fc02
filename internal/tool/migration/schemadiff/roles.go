// SPDX-License-Identifier: Apache-2.0

package schemadiff

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// builtin is Cassandra's default superuser, whose password is public.
const builtin = "cassandra"

// texts is the CQL type of a set of text values.
var texts = cqltype.SetOf(cqltype.Native(cqltype.Text))

// Roles creates the roles of the source that do not exist in the target, with their password hashes, memberships, and
// permissions. It omits Cassandra's default superuser. Roles returns the number of created roles, and the statements
// that the target rejected, with the reasons. The tables must exist.
func Roles(ctx context.Context, source, target *bulk.Reader) (made int, refused []string, err error) {
	there := map[string]bool{builtin: true}
	err = rows(ctx, target, 1, "SELECT role FROM system_auth.roles", func(row []string) { there[row[0]] = true })
	if err != nil {
		return 0, nil, err
	}
	var creates, grants []string
	fresh := map[string]bool{}
	err = rows(ctx, source, 5, "SELECT role, can_login, is_superuser, salted_hash, member_of FROM system_auth.roles",
		func(row []string) {
			if there[row[0]] {
				return
			}
			fresh[row[0]] = true
			text := fmt.Sprintf("CREATE ROLE %s WITH LOGIN = %t AND SUPERUSER = %t", cqltype.QuoteName(row[0]),
				row[1] == "\x01", row[2] == "\x01")
			if row[3] != "" {
				text += " AND HASHED PASSWORD = " + bulk.Quote(row[3])
			}
			creates = append(creates, text)
			for _, of := range texts.Elements([]byte(row[4])) {
				grants = append(grants, "GRANT "+cqltype.QuoteName(string(of))+" TO "+cqltype.QuoteName(row[0]))
			}
		})
	if err != nil {
		return 0, nil, err
	}
	err = rows(ctx, source, 3, "SELECT role, resource, permissions FROM system_auth.role_permissions", func(row []string) {
		on := resource(row[1])
		switch {
		case !fresh[row[0]]:
			return
		case on == "":
			refused = append(refused, plain("permissions of "+row[0]+" on "+row[1]+": they are not copied"))
			return
		}
		for _, p := range texts.Elements([]byte(row[2])) {
			if permissions[string(p)] {
				grants = append(grants, "GRANT "+string(p)+" ON "+on+" TO "+cqltype.QuoteName(row[0]))
			}
		}
	})
	if err != nil {
		return 0, nil, err
	}
	for i, text := range append(creates, grants...) {
		err := carryOut(ctx, target, text)
		if e, ok := errors.AsType[*cqlwire.Error](err); ok {
			what, _, _ := strings.Cut(text, " WITH ") // without the hash
			refused = append(refused, plain(what+": "+e.Message))
		} else if err != nil {
			return made, refused, err
		} else if i < len(creates) {
			made++
		}
	}
	return made, refused, nil
}

// permissions lists the valid permissions, because the text of the source is used in statements.
var permissions = map[string]bool{"CREATE": true, "ALTER": true, "DROP": true, "SELECT": true, "MODIFY": true,
	"AUTHORIZE": true, "DESCRIBE": true, "EXECUTE": true, "UNMASK": true, "SELECT_MASKED": true}

// resource converts a path in system_auth to CQL. resource returns "" for paths other than data, roles, and all
// functions.
func resource(path string) string {
	kind, rest, _ := strings.Cut(path, "/")
	keyspace, table, hasTable := strings.Cut(rest, "/")
	switch {
	case kind == "data" && hasTable:
		return "TABLE " + cqltype.QuoteName(keyspace) + "." + cqltype.QuoteName(table)
	case kind == "data" && rest != "":
		return "KEYSPACE " + cqltype.QuoteName(rest)
	case kind == "data":
		return "ALL KEYSPACES"
	case kind == "roles" && rest != "":
		return "ROLE " + cqltype.QuoteName(rest)
	case kind == "roles":
		return "ALL ROLES"
	case kind == "functions" && rest == "":
		return "ALL FUNCTIONS"
	case kind == "functions" && !hasTable:
		return "ALL FUNCTIONS IN KEYSPACE " + cqltype.QuoteName(keyspace)
	}
	return ""
}
