// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Rows is the result of LIST. The values are in wire format.
type Rows struct {
	// Table is the table in keyspace system_auth that Cassandra reports as the source of the columns.
	Table   string
	Columns []Column
	Values  [][][]byte
}

// Column is a column of Rows.
type Column struct {
	Name string
	Type *cqltype.Type
}

var (
	textType    = cqltype.Native(cqltype.Text)
	booleanType = cqltype.Native(cqltype.Boolean)
	textMap     = cqltype.MapOf(textType, textType)

	roleColumns = []Column{
		{"role", textType}, {"super", booleanType}, {"login", booleanType}, {"options", textMap},
		{"datacenters", textType},
	}
	userColumns       = []Column{{"name", textType}, {"super", booleanType}, {"datacenters", textType}}
	permissionColumns = []Column{{"role", textType}, {"username", textType}, {"resource", textType},
		{"permission", textType}}
)

func boolean(yes bool) []byte {
	if yes {
		return []byte{1}
	}
	return []byte{0}
}

// seesAll reports whether a role can list all roles.
func seesAll(who *access.Subject) bool {
	return who.May(access.Describe, access.Resource{Kind: access.AllRoles})
}

// visible returns the roles that the requesting role can list, sorted by name.
func visible(r *Request, direct bool) []string {
	if !seesAll(r.Subject) {
		return memberships(r.State, r.Subject.Name, direct)
	}
	var names []string
	for _, role := range r.State.Roles() {
		names = append(names, role.Name)
	}
	return names
}

// memberships returns a role and all roles that are granted to the role, sorted by name. If direct is true, memberships
// omits inherited roles.
func memberships(s *access.State, name string, direct bool) []string {
	names := s.Memberships(name)
	if role := s.Role(name); direct && role != nil {
		names = append([]string{name}, role.MemberOf...)
	}
	slices.Sort(names)
	return names
}

func listRoles(r *Request, s *parser.ListRoles) (*Rows, error) {
	names := []string(nil)
	switch of := s.Role.Name; {
	case of == "" && !s.Role.Quoted:
		names = visible(r, s.NoRecursive)
	case r.State.Role(of) == nil:
		return nil, dberr.Invalidf("%s doesn't exist", access.OfRole(of))
	case !seesAll(r.Subject) && !slices.Contains(r.Subject.Roles, of):
		return nil, dberr.Unauthorizedf("You are not authorized to view roles granted to %s ", of)
	default:
		names = memberships(r.State, of, s.NoRecursive)
	}
	out := &Rows{Table: "roles", Columns: roleColumns}
	for _, name := range names {
		if role := r.State.Role(name); role != nil {
			var given [][]byte
			if role.Low {
				given = [][]byte{[]byte(priorityOption), []byte("low")}
			}
			options := textMap.SortedMap(given)
			out.Values = append(out.Values, [][]byte{
				[]byte(name), boolean(role.Superuser), boolean(role.Login), options, datacenters(role),
			})
		}
	}
	return out, nil
}

func listUsers(r *Request) *Rows {
	out := &Rows{Table: "users", Columns: userColumns}
	for _, name := range visible(r, false) {
		if role := r.State.Role(name); role != nil && role.Login {
			out.Values = append(out.Values, [][]byte{[]byte(name), boolean(role.Superuser), datacenters(role)})
		}
	}
	return out
}

// datacenters returns the data centers in which a role may log in.
func datacenters(r *access.Role) []byte {
	switch {
	case !r.Login:
		return []byte("n/a")
	case r.Superuser || len(r.Datacenters) == 0:
		return []byte("ALL")
	}
	return []byte(strings.Join(r.Datacenters, ", "))
}

func listPermissions(r *Request, s *parser.ListPermissions) (*Rows, error) {
	of := s.Role.Name
	everybody := of == "" && !s.Role.Quoted
	var within []access.Resource
	if s.Resource != nil {
		on, err := r.resource(s.Resource)
		if err != nil {
			return nil, err
		}
		if !r.exists(on) {
			return nil, dberr.Invalidf("%s doesn't exist", on)
		}
		if within = on.Within(); s.NoRecursive {
			within = []access.Resource{on}
		}
	}
	switch {
	case everybody && !r.Subject.Superuser:
		return nil, dberr.Unauthorizedf("You are not authorized to view everyone's permissions")
	case !everybody && r.State.Role(of) == nil:
		return nil, dberr.Invalidf("%s doesn't exist", access.OfRole(of))
	case !everybody && !r.Subject.Superuser && !slices.Contains(r.Subject.Roles, of):
		return nil, dberr.Unauthorizedf("You are not authorized to view %s's permissions", of)
	}
	names := memberships(r.State, of, false)
	if everybody {
		names = visible(r, false) // only superusers reach this point
	}
	out := &Rows{Table: "permissions", Columns: permissionColumns}
	for _, name := range names {
		role := r.State.Role(name)
		if role == nil {
			continue
		}
		for _, on := range access.SortedResources(role.Grants) {
			if within != nil && !slices.Contains(within, on) {
				continue
			}
			for _, p := range (role.Grants[on] & s.Permissions).List() {
				out.Values = append(out.Values, [][]byte{[]byte(name), []byte(name), []byte(on.String()),
					[]byte(p.String())})
			}
		}
	}
	if len(out.Values) == 0 {
		return nil, nil
	}
	return out, nil
}

// exists reports whether the resource of a LIST exists.
func (r *Request) exists(on access.Resource) bool {
	switch on.Kind {
	case access.RoleKind:
		return r.State.Role(on.Name) != nil
	case access.Table:
		return r.Schema.Table(on.Keyspace, on.Name) != nil
	case access.Keyspace, access.AllTables, access.AllFunctionsInKeyspace:
		return r.Schema.Keyspace(on.Keyspace) != nil
	}
	return true
}
