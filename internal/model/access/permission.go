// SPDX-License-Identifier: Apache-2.0

package access

import "strings"

// Permission is a single permission.
type Permission uint8

// These are the permissions in Cassandra's order. The numbers are stored in records.
const (
	Create Permission = iota
	Alter
	Drop
	Select
	Modify
	Authorize
	Describe
	Execute
	Unmask
	SelectMasked

	permissionCount = iota
)

var permissionNames = [permissionCount]string{
	"CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE", "UNMASK", "SELECT_MASKED",
}

// String returns Cassandra's name for the permission.
func (p Permission) String() string {
	if int(p) < len(permissionNames) {
		return permissionNames[p]
	}
	return ""
}

// Permissions is a set of permissions.
type Permissions uint32

// AllPermissions contains every permission.
const AllPermissions Permissions = 1<<permissionCount - 1

// Of returns the set of the given permissions.
func Of(list ...Permission) Permissions {
	var s Permissions
	for _, p := range list {
		s |= 1 << p
	}
	return s
}

// Has reports whether p is in the set.
func (s Permissions) Has(p Permission) bool { return s&(1<<p) != 0 }

// List returns the permissions in ascending order.
func (s Permissions) List() []Permission {
	var list []Permission
	for p := range Permission(permissionCount) {
		if s.Has(p) {
			list = append(list, p)
		}
	}
	return list
}

// Names returns the names of the permissions in ascending order of the permissions.
func (s Permissions) Names() []string {
	var names []string
	for _, p := range s.List() {
		names = append(names, p.String())
	}
	return names
}

// String joins the names with commas.
func (s Permissions) String() string { return strings.Join(s.Names(), ", ") }
