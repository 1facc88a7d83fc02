// SPDX-License-Identifier: Apache-2.0

package parser

// CreateRole is CREATE ROLE, and CREATE USER (User is true: then the name was not a quoted identifier and the role can
// log in unless Options say otherwise).
type CreateRole struct {
	User        bool
	IfNotExists bool
	Role        Ident
	Options     RoleOptions
}

// AlterRole is ALTER ROLE, and ALTER USER.
type AlterRole struct {
	User     bool
	IfExists bool
	Role     Ident
	Options  RoleOptions
}

// DropRole is DROP ROLE, and DROP USER.
type DropRole struct {
	User     bool
	IfExists bool
	Role     Ident
}

// RoleOptions is what a role is given; a part not given is nil.
type RoleOptions struct {
	Password       *string
	HashedPassword *string
	Superuser      *bool
	Login          *bool
	// Options is OPTIONS = {..}; nil if not given.
	Options *[]PropertyEntry
	// Datacenters is ACCESS TO DATACENTERS {..}; AllDatacenters is ACCESS TO ALL DATACENTERS.
	Datacenters    []string
	AllDatacenters bool
	// CIDRs is ACCESS FROM CIDRS {..}; AllCIDRs is ACCESS FROM ALL CIDRS (Cassandra 5.0).
	CIDRs    []string
	AllCIDRs bool
}

// Permission is a permission by its name.
type Permission uint8

// The permissions, in the order Cassandra lists them.
const (
	PermissionCreate Permission = iota
	PermissionAlter
	PermissionDrop
	PermissionSelect
	PermissionModify
	PermissionAuthorize
	PermissionDescribe
	PermissionExecute
	PermissionUnmask
	PermissionSelectMasked
)

var permissionNames = [...]string{"CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE", "UNMASK", "SELECT_MASKED"}

// String returns the permission's name as Cassandra lists it.
func (p Permission) String() string {
	if int(p) < len(permissionNames) {
		return permissionNames[p]
	}
	return ""
}

// ResourceKind is the kind of a resource of GRANT, REVOKE and LIST.
type ResourceKind uint8

// The kinds of resources.
const (
	AllKeyspaces        ResourceKind = iota + 1
	KeyspaceResource                 // Name.Keyspace
	AllTablesInKeyspace              // Name.Keyspace (Cassandra 4.1)
	TableResource                    // Name
	AllRoles
	RoleResource // Name.Name
	AllFunctions
	AllFunctionsInKeyspace // Name.Keyspace
	FunctionResource       // Name and Args
	AllMBeans
	MBeanResource  // MBean
	MBeansResource // MBean, a pattern
)

// Resource is what a permission is about.
type Resource struct {
	Kind  ResourceKind
	Name  QualifiedName
	Args  []*TypeName
	MBean string
}

// GrantPermissions is GRANT permissions ON resource TO role, REVOKE permissions ON resource FROM role if Revoke is
// true. Permissions holds those that apply to the resource, in ascending order; All tells that ALL was written.
type GrantPermissions struct {
	Revoke      bool
	All         bool
	Permissions []Permission
	Resource    Resource
	Role        Ident
}

// GrantRole is GRANT role TO grantee, REVOKE role FROM grantee if Revoke is true.
type GrantRole struct {
	Revoke  bool
	Role    Ident
	Grantee Ident
}

// ListPermissions is LIST permissions [ON resource] [OF role] [NORECURSIVE]. Resource is nil and Role empty if not
// given.
type ListPermissions struct {
	All         bool
	Permissions []Permission
	Resource    *Resource
	Role        Ident
	NoRecursive bool
}

// ListRoles is LIST ROLES [OF role] [NORECURSIVE].
type ListRoles struct {
	Role        Ident
	NoRecursive bool
}

// ListUsers is LIST USERS.
type ListUsers struct{}

func (*CreateRole) statement()       {}
func (*AlterRole) statement()        {}
func (*DropRole) statement()         {}
func (*GrantPermissions) statement() {}
func (*GrantRole) statement()        {}
func (*ListPermissions) statement()  {}
func (*ListRoles) statement()        {}
func (*ListUsers) statement()        {}
