// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// CreateRole represents the statements CREATE ROLE and CREATE USER.
type CreateRole struct {
	Name        string
	IfNotExists bool
	Attributes  Attributes
	// ID identifies the record. The caller generates a random ID.
	ID RoleID
}

func (c *CreateRole) apply(s *State, w *Environment) (*State, []string, error) {
	who := w.subject(s)
	if err := checkRolePermission(who, Create, Resource{Kind: AllRoles}); err != nil {
		return nil, nil, err
	}
	if c.Attributes.Superuser != nil && *c.Attributes.Superuser && !who.Superuser {
		return nil, nil, dberr.Unauthorizedf("Only superusers can create a role with superuser status")
	}
	if err := c.Attributes.check(s, w); err != nil {
		return nil, nil, err
	}
	if c.Name == "" {
		return nil, nil, dberr.Invalidf("Role name can't be an empty string")
	}
	if len(c.Name) > NameBytesMax {
		return nil, nil, dberr.Invalidf("Role names shouldn't be more than %d bytes long", NameBytesMax)
	}
	if s.Role(c.Name) != nil || w.Configured.Has(c.Name) {
		if c.IfNotExists {
			return s, nil, nil
		}
		return nil, nil, dberr.Invalidf("%s already exists", c.Name)
	}
	return s.WithRole(c.Attributes.applyTo(Role{Name: c.Name, ID: c.ID})).WithCreator(w.Actor, OfRole(c.Name)), nil, nil
}

// NameBytesMax is the maximum length of a role's name, in bytes.
const NameBytesMax = 1024

// AlterRole represents the statements ALTER ROLE and ALTER USER.
type AlterRole struct {
	Name       string
	IfExists   bool
	Attributes Attributes
}

func (c *AlterRole) apply(s *State, w *Environment) (*State, []string, error) {
	if err := c.authorize(w.subject(s)); err != nil {
		return nil, nil, err
	}
	if c.Attributes.empty() {
		return nil, nil, dberr.Invalidf("ALTER [ROLE|USER] can't be empty")
	}
	if err := c.Attributes.check(s, w); err != nil {
		return nil, nil, err
	}
	r := s.Role(c.Name)
	switch {
	case r == nil && c.IfExists:
		return s, nil, nil
	case r == nil:
		return nil, nil, dberr.Invalidf("Role %s doesn't exist", c.Name)
	}
	a := &c.Attributes
	if w.Configured.Has(c.Name) && (a.Hash != nil || a.Login != nil || a.Superuser != nil) {
		return nil, nil, dberr.Invalidf("Role %s is defined in the configuration: change its password there. "+
			"It always has LOGIN and SUPERUSER", c.Name)
	}
	next := a.applyTo(*r)
	if a.Hash != nil || next.Login != r.Login {
		next.Credentials++
	}
	return s.WithRole(next), nil, nil
}

func (c *AlterRole) authorize(who *Subject) error {
	a := &c.Attributes
	switch {
	case a.Superuser != nil && slices.Contains(who.Roles, c.Name):
		return dberr.Unauthorizedf("You aren't allowed to alter your own superuser status or that of a role granted to you")
	case a.Superuser != nil && !who.Superuser:
		return dberr.Unauthorizedf("Only superusers are allowed to alter superuser status")
	case a.Datacenters != nil && !who.Superuser:
		return dberr.Unauthorizedf("Only superusers are allowed to alter access to datacenters.")
	case a.Groups != nil && !who.Superuser:
		return dberr.Unauthorizedf("Only superusers are allowed to alter access from CIDR groups.")
	case who.Name != c.Name:
		return checkRolePermission(who, Alter, OfRole(c.Name))
	case who.Superuser:
		return nil
	case a.Login != nil:
		return dberr.Unauthorizedf("You aren't allowed to alter LOGIN")
	case a.Options || a.Low != nil:
		return dberr.Unauthorizedf("You aren't allowed to alter OPTIONS")
	}
	return nil // every role may change its own password
}

// DropRole represents the statements DROP ROLE and DROP USER.
type DropRole struct {
	Name     string
	IfExists bool
}

func (c *DropRole) apply(s *State, w *Environment) (*State, []string, error) {
	who := w.subject(s)
	if err := checkRolePermission(who, Drop, OfRole(c.Name)); err != nil {
		return nil, nil, err
	}
	if s.Superuser(c.Name) && !who.Superuser {
		return nil, nil, dberr.Unauthorizedf("Only superusers can drop a role with superuser status")
	}
	switch {
	case s.Role(c.Name) == nil && c.IfExists:
		return s, nil, nil
	case s.Role(c.Name) == nil:
		return nil, nil, dberr.Invalidf("%s doesn't exist", c.Name)
	case who.Name == c.Name:
		return nil, nil, dberr.Invalidf("Cannot DROP primary role for current login")
	case w.Configured.Has(c.Name):
		return nil, nil, dberr.Invalidf("%s is defined in the configuration: remove it there first", c.Name)
	}
	return s.WithoutRole(c.Name), nil, nil
}

// GrantRole represents GRANT role TO role or, if Revoke is true, REVOKE role FROM role.
type GrantRole struct {
	Revoke        bool
	Role, Grantee string
}

func (c *GrantRole) apply(s *State, w *Environment) (*State, []string, error) {
	if err := checkRolePermission(w.subject(s), Authorize, OfRole(c.Role)); err != nil {
		return nil, nil, err
	}
	for _, name := range []string{c.Role, c.Grantee} {
		if s.Role(name) == nil {
			return nil, nil, dberr.Invalidf("%s doesn't exist", name)
		}
	}
	next := *s.Role(c.Grantee)
	if c.Revoke {
		if !slices.Contains(next.MemberOf, c.Role) {
			return nil, nil, dberr.Invalidf("%s is not a member of %s", c.Grantee, c.Role)
		}
		next.MemberOf = removed(next.MemberOf, c.Role)
		return s.WithRole(&next), nil, nil
	}
	switch {
	case slices.Contains(s.Memberships(c.Grantee), c.Role):
		return nil, nil, dberr.Invalidf("%s is a member of %s", c.Grantee, c.Role)
	case slices.Contains(s.Memberships(c.Role), c.Grantee):
		return nil, nil, dberr.Invalidf("%s is a member of %s", c.Role, c.Grantee)
	}
	next.MemberOf = added(next.MemberOf, c.Role)
	return s.WithRole(&next), nil, nil
}

// AddIdentity represents ADD IDENTITY, which maps a certificate's identity to a role.
type AddIdentity struct {
	Identity, Role string
	IfNotExists    bool
}

func (c *AddIdentity) apply(s *State, w *Environment) (*State, []string, error) {
	if err := checkRolePermission(w.subject(s), Create, Resource{Kind: AllRoles}); err != nil {
		return nil, nil, err
	}
	switch {
	case c.Identity == "":
		return nil, nil, dberr.Invalidf("Key may not be empty")
	case len(c.Identity) > NameBytesMax:
		return nil, nil, dberr.Invalidf("An identity cannot exceed %d bytes", NameBytesMax)
	case s.Role(c.Role) == nil:
		return nil, nil, dberr.Invalidf("Can not add identity for non-existent role '%s'", c.Role)
	case s.Identity(c.Identity) != "" && c.IfNotExists:
		return s, nil, nil
	case s.Identity(c.Identity) != "":
		return nil, nil, dberr.Invalidf("%s already exists", c.Identity)
	case s.Superuser(c.Role) && !w.subject(s).Superuser:
		return nil, nil, dberr.Unauthorizedf("Only superusers can add an identity to a role with superuser status")
	}
	return s.WithIdentity(c.Identity, c.Role), nil, nil
}

// DropIdentity represents the statement DROP IDENTITY.
type DropIdentity struct {
	Identity string
	IfExists bool
}

func (c *DropIdentity) apply(s *State, w *Environment) (*State, []string, error) {
	if err := checkRolePermission(w.subject(s), Drop, Resource{Kind: AllRoles}); err != nil {
		return nil, nil, err
	}
	switch {
	case s.Identity(c.Identity) == "" && c.IfExists:
		return s, nil, nil
	case s.Identity(c.Identity) == "":
		return nil, nil, dberr.Invalidf("identity '%s' doesn't exist", c.Identity)
	}
	return s.WithoutIdentity(c.Identity), nil, nil
}
