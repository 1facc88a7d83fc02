// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"net/netip"
	"slices"
)

// Role is a name that things are allowed to: a user, a group of them, or both. A Role never changes.
type Role struct {
	Name string
	// Login allows clients to log in as the role; Superuser allows everything to it and to its members.
	Login, Superuser bool
	// Hash is the bcrypt hash of the password, empty if there is none: then no password is right.
	Hash string
	// MemberOf are the roles that were granted to this one, ascending.
	MemberOf []string
	// Datacenters are those whose nodes serve the role, ascending; all if there are none.
	Datacenters []string
	// Groups are the CIDR groups from whose addresses the role is served, ascending; from everywhere if there are
	// none.
	Groups []string
	// Low says that the requests of the role are of low priority.
	Low bool
	// Configured says that the record was made for a user of a configuration, which has the password.
	Configured bool
	// ID identifies the record: a role that is created after one of the same name was dropped has another. It is zero
	// in records of builds that had no such field, and of users of a configuration.
	ID RoleID
	// Credentials counts the changes of the password and of LOGIN.
	Credentials uint64
	// Grants are the permissions of the role itself. There are no empty sets.
	Grants map[Resource]Permissions
	// rest has the fields that a later build has added, as they came.
	rest []byte
}

// with is a copy in which one grant is another; no permission removes it.
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

// without is a copy in which no resource is granted that gone reports; the role itself if none is.
func (r *Role) without(gone func(Resource) bool) *Role {
	next := r
	for on := range r.Grants {
		if gone(on) {
			next = next.with(on, 0)
		}
	}
	return next
}

// Group is a set of addresses that roles may be bound to.
type Group struct {
	Name  string
	CIDRs []netip.Prefix
}

// Contains reports whether an address is in the group.
func (g *Group) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(g.CIDRs, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// added is an ascending list with one more text.
func added(list []string, s string) []string {
	i, ok := slices.BinarySearch(list, s)
	if ok {
		return list
	}
	return slices.Insert(slices.Clone(list), i, s)
}

// removed is a list without a text.
func removed(list []string, s string) []string {
	i := slices.Index(list, s)
	if i < 0 {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

// sorted is an ascending copy without doubles.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
