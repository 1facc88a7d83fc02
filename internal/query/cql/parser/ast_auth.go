// SPDX-License-Identifier: Apache-2.0

package parser

import "github.com/ilion-db/ilion/internal/model/access"

// CreateRole is the CREATE ROLE statement, or the CREATE USER statement if User is true. In CREATE USER, the name must
// not be a quoted identifier. By default, a role created by CREATE USER can log in.
type CreateRole struct {
	User        bool
	IfNotExists bool
	Role        Ident
	Options     RoleOptions
}

// AlterRole is the ALTER ROLE or ALTER USER statement.
type AlterRole struct {
	User     bool
	IfExists bool
	Role     Ident
	Options  RoleOptions
}

// DropRole is the DROP ROLE or DROP USER statement.
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
	// Options holds the entries of OPTIONS = {..}.
	Options *[]PropertyEntry
	// Datacenters holds the entries of ACCESS TO DATACENTERS {..}. AllDatacenters reports whether the statement
	// contains ACCESS TO ALL DATACENTERS.
	Datacenters    []string
	AllDatacenters bool
	// CIDRs holds the entries of Cassandra 5.0's ACCESS FROM CIDRS {..}. AllCIDRs reports whether the statement
	// contains ACCESS FROM ALL CIDRS.
	CIDRs    []string
	AllCIDRs bool
}

// Resource is the resource of a permission.
type Resource struct {
	// Kind determines which other fields are set. For a role, Name.Name is the role name.
	Kind access.Kind
	Name QualifiedName
	Args []*TypeName
	// MBean is the name of an MBean. MBeans reports whether MBean is a pattern.
	MBean  string
	MBeans bool
	// Procedure is a procedure of the container in Name. The resource of a procedure has the same kind as a function.
	Procedure Ident
}

// GrantPermissions is the statement GRANT permissions ON resource TO role. If Revoke is true, it is the statement
// REVOKE permissions ON resource FROM role. Permissions holds the permissions that apply to the resource. All reports
// whether the statement contains ALL.
type GrantPermissions struct {
	Revoke      bool
	All         bool
	Permissions access.Permissions
	Resource    Resource
	Role        Ident
}

// GrantRole is the statement GRANT role TO grantee. If Revoke is true, it is the statement REVOKE role FROM grantee.
type GrantRole struct {
	Revoke  bool
	Role    Ident
	Grantee Ident
}

// ListPermissions is the statement LIST permissions [ON resource] [OF role] [NORECURSIVE]. If the statement contains no
// resource, Resource is nil. If the statement contains no role, Role is empty.
type ListPermissions struct {
	All         bool
	Permissions access.Permissions
	Resource    *Resource
	Role        Ident
	NoRecursive bool
}

// ListRoles is the statement LIST ROLES [OF role] [NORECURSIVE].
type ListRoles struct {
	Role        Ident
	NoRecursive bool
}

// ListUsers is the LIST USERS statement.
type ListUsers struct{}

// AddIdentity is the statement ADD IDENTITY 'x' TO ROLE role.
type AddIdentity struct {
	IfNotExists bool
	Identity    string
	Role        Ident
}

// DropIdentity is the statement DROP IDENTITY 'x'.
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
