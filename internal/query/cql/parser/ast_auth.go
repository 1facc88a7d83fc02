// SPDX-License-Identifier: Apache-2.0

package parser

import "github.com/ilion-db/ilion/internal/model/access"

// CreateRole is CREATE ROLE, or CREATE USER if User is true. With CREATE USER, the name must not be a quoted
// identifier, and the role can log in unless Options states otherwise.
type CreateRole struct {
	User        bool
	IfNotExists bool
	Role        Ident
	Options     RoleOptions
}

// AlterRole is ALTER ROLE or ALTER USER.
type AlterRole struct {
	User     bool
	IfExists bool
	Role     Ident
	Options  RoleOptions
}

// DropRole is DROP ROLE or DROP USER.
type DropRole struct {
	User     bool
	IfExists bool
	Role     Ident
}

// RoleOptions holds the options of a role. A missing option is nil.
type RoleOptions struct {
	Password       *string
	HashedPassword *string
	Superuser      *bool
	Login          *bool
	// Options is OPTIONS = {..}, or nil if it is missing.
	Options *[]PropertyEntry
	// Datacenters is ACCESS TO DATACENTERS {..}. AllDatacenters is ACCESS TO ALL DATACENTERS.
	Datacenters    []string
	AllDatacenters bool
	// CIDRs is ACCESS FROM CIDRS {..}. AllCIDRs is ACCESS FROM ALL CIDRS (Cassandra 5.0).
	CIDRs    []string
	AllCIDRs bool
}

// Resource is the resource of a permission, as written.
type Resource struct {
	// Kind determines which other fields are set. Name.Name holds the name of a role, and MBean holds the name of an
	// MBean.
	Kind access.Kind
	Name QualifiedName
	Args []*TypeName
	// MBean is the name of an MBean. MBeans reports whether it was written as a pattern.
	MBean  string
	MBeans bool
	// Procedure is a procedure of the container in Name. Its kind is the kind for functions.
	Procedure Ident
}

// GrantPermissions is GRANT permissions ON resource TO role, or REVOKE permissions ON resource FROM role if Revoke is
// true. Permissions holds the permissions that apply to the resource. All reports whether the statement contains ALL.
type GrantPermissions struct {
	Revoke      bool
	All         bool
	Permissions access.Permissions
	Resource    Resource
	Role        Ident
}

// GrantRole is GRANT role TO grantee, or REVOKE role FROM grantee if Revoke is true.
type GrantRole struct {
	Revoke  bool
	Role    Ident
	Grantee Ident
}

// ListPermissions is LIST permissions [ON resource] [OF role] [NORECURSIVE]. Resource is nil and Role is empty if the
// statement does not contain them.
type ListPermissions struct {
	All         bool
	Permissions access.Permissions
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

// AddIdentity is ADD IDENTITY 'x' TO ROLE role.
type AddIdentity struct {
	IfNotExists bool
	Identity    string
	Role        Ident
}

// DropIdentity is DROP IDENTITY 'x'.
type DropIdentity struct {
	IfExists bool
	Identity string
}

func (*AddIdentity) statement()      {}
func (*DropIdentity) statement()     {}
func (*CreateRole) statement()       {}
func (*AlterRole) statement()        {}
func (*DropRole) statement()         {}
func (*GrantPermissions) statement() {}
func (*GrantRole) statement()        {}
func (*ListPermissions) statement()  {}
func (*ListRoles) statement()        {}
func (*ListUsers) statement()        {}
