// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"net/netip"
	"slices"
)

// Role is a user, a group of users, or both. Role is immutable.
type Role struct {
	Name string
	// Login allows clients to log in as the role. Superuser grants all permissions to the role and its members.
	Login, Superuser bool
	// Hash is the bcrypt hash of the password. If Hash is empty, no password is accepted.
	Hash string
	// MemberOf lists the roles granted to this role in ascending order.
	MemberOf []string
	// Datacenters lists, in ascending order, the data centers whose nodes serve the role. If Datacenters is empty, all
	// nodes serve the role.
	Datacenters []string
	// Groups lists, in ascending order, the CIDR groups whose addresses may use the role. If Groups is empty, all
	// addresses may use the role.
	Groups []string
	// Low means that the requests of the role have low priority.
	Low bool
	// Configured means that the record was created for a user that a configuration file defines. The configuration file
	// contains the password.
	Configured bool
	// ID identifies the record. If a role is dropped and created again with the same name, it gets a different ID. ID
	// is zero for users in a configuration, and in records from builds without this field.
	ID RoleID
	// Credentials counts the changes to the password and to LOGIN.
	Credentials uint64
	// Grants maps resources to the permissions granted to the role itself. Empty sets are omitted.
	Grants map[Resource]Permissions
	// rest holds encoded fields that later builds have added.
	rest []byte
}

// with returns a copy of r in which the grant on a resource is replaced. An empty set removes the grant.
func (r *Role) with(on Resource, p Permissions) *Role {
	next := *r
	next.Grants = maps.Clone(r.Grants)
	if next.Grants == nil {
		next.Grants = map[Resource]Permissions{}
	}
	if next.Grants[on] = p; p == 0 {
		delete(next.Grants, on)
	}
	return &next
}

// without returns a copy of r without the grants on the resources for which gone returns true. If no such grants
// exist, it returns r itself.
func (r *Role) without(gone func(Resource) bool) *Role {
	next := r
	for on := range r.Grants {
		if gone(on) {
			next = next.with(on, 0)
		}
	}
	return next
}

// Group is a set of addresses to which roles can be restricted.
type Group struct {
	Name  string
	CIDRs []netip.Prefix
}

// Contains reports whether an address is in the group.
func (g *Group) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(g.CIDRs, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// added returns an ascending copy of a list that contains s.
func added(list []string, s string) []string {
	i, ok := slices.BinarySearch(list, s)
	if ok {
		return list
	}
	return slices.Insert(slices.Clone(list), i, s)
}

// removed returns a list without s.
func removed(list []string, s string) []string {
	i := slices.Index(list, s)
	if i < 0 {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

// sorted returns a sorted copy of a list without duplicates.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
