// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"slices"
)

// State is a set of roles with their CIDR groups and identities. A State is immutable. The zero value is empty.
type State struct {
	roles      map[string]*Role
	groups     map[string]*Group
	identities map[string]string
}

// Role returns the role with the given name, or nil if no such role exists.
func (s *State) Role(name string) *Role { return s.roles[name] }

// Group returns the CIDR group with the given name, or nil if no such group exists.
func (s *State) Group(name string) *Group { return s.groups[name] }

// Identity returns the role of a certificate's identity, or an empty string if the identity has no role.
func (s *State) Identity(identity string) string { return s.identities[identity] }

// Roles returns the roles, sorted by name.
func (s *State) Roles() []*Role {
	return slices.SortedFunc(maps.Values(s.roles), func(a, b *Role) int { return compare(a.Name, b.Name) })
}

// Groups returns the CIDR groups, sorted by name.
func (s *State) Groups() []*Group {
	return slices.SortedFunc(maps.Values(s.groups), func(a, b *Group) int { return compare(a.Name, b.Name) })
}

// Identities returns the certificate identities that are mapped to roles, in ascending order.
func (s *State) Identities() []string { return slices.Sorted(maps.Keys(s.identities)) }

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// WithRole returns a state that contains the given role. A role of the same name is replaced.
func (s *State) WithRole(r *Role) *State {
	next := *s
	next.roles = with(s.roles, r.Name, r)
	return &next
}

// WithoutRole returns a state without a role and without references to the role.
func (s *State) WithoutRole(name string) *State {
	next := *s
	next.roles = maps.Clone(s.roles)
	delete(next.roles, name)
	for other, r := range next.roles {
		if slices.Contains(r.MemberOf, name) {
			changed := *r
			changed.MemberOf = removed(r.MemberOf, name)
			next.roles[other] = &changed
		}
	}
	for identity, role := range s.identities {
		if role == name {
			next = *next.WithoutIdentity(identity)
		}
	}
	return next.WithoutGrantsOn(func(r Resource) bool { return r == OfRole(name) })
}

// WithGroup returns a state that contains the given CIDR group. A group of the same name is replaced.
func (s *State) WithGroup(g *Group) *State {
	next := *s
	next.groups = with(s.groups, g.Name, g)
	return &next
}

// WithoutGroup returns a state without a CIDR group. Roles that are restricted to the group keep its name, but clients
// at its addresses can no longer use these roles.
func (s *State) WithoutGroup(name string) *State {
	next := *s
	next.groups = maps.Clone(s.groups)
	delete(next.groups, name)
	return &next
}

// WithIdentity returns a state that maps a certificate's identity to a role.
func (s *State) WithIdentity(identity, role string) *State {
	next := *s
	next.identities = with(s.identities, identity, role)
	return &next
}

// WithoutIdentity returns a state without the mapping of a certificate's identity.
func (s *State) WithoutIdentity(identity string) *State {
	next := *s
	next.identities = maps.Clone(s.identities)
	delete(next.identities, identity)
	return &next
}

// WithoutGrantsOn returns a state without the grants on the resources for which gone returns true. If no such grants
// exist, WithoutGrantsOn returns s itself.
func (s *State) WithoutGrantsOn(gone func(Resource) bool) *State {
	next := s
	for _, r := range s.roles {
		if changed := r.without(gone); changed != r {
			next = next.WithRole(changed)
		}
	}
	return next
}

// WithCreator returns a state in which a role has all permissions on the resources that it has created. If the role
// has no record, WithCreator returns s itself.
func (s *State) WithCreator(role string, made ...Resource) *State {
	r := s.Role(role)
	if r == nil {
		return s
	}
	for _, on := range made {
		r = r.with(on, r.Grants[on]|on.Applicable())
	}
	return s.WithRole(r)
}

// Memberships returns the role itself, the roles granted to it directly, and the roles granted to it indirectly, in
// this order. Each role is listed once. A role without a record has no other memberships.
func (s *State) Memberships(name string) []string {
	list := []string{name}
	for i := 0; i < len(list); i++ {
		r := s.Role(list[i])
		if r == nil {
			continue
		}
		for _, granted := range r.MemberOf {
			if !slices.Contains(list, granted) {
				list = append(list, granted)
			}
		}
	}
	return list
}

// Superuser reports whether a role has all permissions because it is a superuser or a member of a superuser.
func (s *State) Superuser(name string) bool {
	return slices.ContainsFunc(s.Memberships(name), func(n string) bool {
		r := s.Role(n)
		return r != nil && r.Superuser
	})
}

func with[V any](m map[string]V, key string, v V) map[string]V {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]V{}
	}
	out[key] = v
	return out
}
