// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/netip"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Subject holds the resolved permissions of a role in one State, which makes checks fast. A Subject is immutable.
type Subject struct {
	Name string
	// Superuser grants all permissions. Login is also false for a role that no longer exists.
	Superuser, Login bool
	// Low means that the subject's requests have low priority. Low is not inherited from other roles.
	Low bool
	// Roles is the result of State.Memberships.
	Roles []string

	configured  bool
	version     RoleVersion
	datacenters []string
	// restricted means that the role is served only from the addresses of groups.
	restricted bool
	groups     []*Group
	grants     map[Resource]Permissions
	// everywhere holds the permissions on all keyspaces. spaces holds the permissions for each keyspace on which
	// additional permissions were granted.
	everywhere Permissions
	spaces     map[string]*space
}

// space holds the permissions on the tables of one keyspace.
type space struct {
	all    Permissions
	tables map[string]Permissions
}

// Resolve returns the permissions of a role. A user in the configuration is a superuser who can log in, regardless of
// the state.
func (s *State) Resolve(name string, configured bool) *Subject {
	out := &Subject{
		Name: name, Superuser: configured || s.Superuser(name), Login: configured, Roles: s.Memberships(name),
		grants: map[Resource]Permissions{}, configured: configured, version: s.Role(name).Version(),
	}
	if r := s.Role(name); r != nil {
		out.Login, out.Low = out.Login || r.Login, r.Low
		out.datacenters, out.restricted = r.Datacenters, len(r.Groups) > 0
		for _, g := range r.Groups {
			if group := s.Group(g); group != nil {
				out.groups = append(out.groups, group)
			}
		}
	}
	for _, n := range out.Roles {
		if r := s.Role(n); r != nil {
			for on, p := range r.Grants {
				out.grants[on] |= p
			}
		}
	}
	out.index()
	return out
}

// Version returns the version of the record from which the subject was resolved. It returns zero if no record existed.
func (s *Subject) Version() RoleVersion { return s.version }

// Ended returns the subject of a session whose role has been dropped. The subject has no permissions.
func Ended(name string) *Subject { return &Subject{Name: name, Roles: []string{name}} }

// index prepares the data structures that the lookups of every statement use.
func (s *Subject) index() {
	s.everywhere = s.grants[Resource{Kind: AllKeyspaces}]
	s.spaces = map[string]*space{}
	for on, p := range s.grants {
		switch on.Kind {
		case Keyspace, AllTables:
			s.space(on.Keyspace).all |= p
		case Table:
			s.space(on.Keyspace).tables[on.Name] |= p
		}
	}
}

func (s *Subject) space(keyspace string) *space {
	sp := s.spaces[keyspace]
	if sp == nil {
		sp = &space{tables: map[string]Permissions{}}
		if !protected(keyspace) {
			sp.all = s.everywhere
		}
		s.spaces[keyspace] = sp
	}
	return sp
}

// May reports whether the subject has a permission on a resource or on a resource that contains it. May does not
// allocate.
func (s *Subject) May(p Permission, on Resource) bool {
	if s.Superuser {
		return true
	}
	if on.Kind == Table {
		if sp := s.spaces[on.Keyspace]; sp != nil {
			return sp.all.Has(p) || sp.tables[on.Name].Has(p)
		}
		return s.everywhere.Has(p) && !protected(on.Keyspace)
	}
	for ok := true; ok; on, ok = on.Parent() {
		if s.grants[on].Has(p) {
			return true
		}
	}
	return false
}

// Check works like May, but returns an error for the client.
func (s *Subject) Check(p Permission, on Resource) error {
	if s.May(p, on) {
		return nil
	}
	return dberr.Unauthorizedf("User %s has no %s permission on %s or any of its parents", s.Name, p, on)
}

// Admit returns an error if the subject must not be served in the given data center, or to a client at the given
// address. Admit rejects a role that has lost LOGIN, and a role that is restricted to other data centers or addresses.
// An invalid address represents a caller in the same process.
func (s *Subject) Admit(datacenter string, from netip.Addr) error {
	switch {
	case !s.Login, !s.Superuser && len(s.datacenters) > 0 && !slices.Contains(s.datacenters, datacenter):
		return dberr.Unauthorizedf("You do not have access to this datacenter (%s)", datacenter)
	case s.Superuser || !s.restricted || !from.IsValid():
		return nil
	case slices.ContainsFunc(s.groups, func(g *Group) bool { return g.Contains(from) }):
		return nil
	}
	return dberr.Unauthorizedf("You do not have access from this IP %s", from.Unmap())
}
