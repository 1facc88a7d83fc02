// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Grant represents GRANT permissions ON resource TO role. If Revoke is true, it represents REVOKE permissions ON
// resource FROM role.
type Grant struct {
	Revoke      bool
	Permissions Permissions
	On          Resource
	Role        string
}

func (c *Grant) apply(s *State, w *Environment) (*State, []string, error) {
	who := w.subject(s)
	if !w.exists(s, c.On) {
		return nil, nil, dberr.Invalidf("Resource %s doesn't exist", c.On)
	}
	if !c.Revoke && c.Permissions&^c.On.grantable() != 0 {
		return nil, nil, dberr.Unauthorizedf("Granting permissions on system keyspaces is strictly limited, this " +
			"operation is not permitted")
	}
	if err := who.Check(Authorize, c.On); err != nil {
		return nil, nil, err
	}
	for _, p := range c.Permissions.List() {
		if err := who.Check(p, c.On); err != nil {
			return nil, nil, err
		}
	}
	r := s.Role(c.Role)
	if r == nil {
		return nil, nil, dberr.Invalidf("Role %s doesn't exist", c.Role)
	}
	have := r.Grants[c.On]
	idle, text, next := have&c.Permissions, "Role '%s' was already granted %s on %s", have|c.Permissions
	if c.Revoke {
		idle, text, next = c.Permissions&^have, "Role '%s' was not granted %s on %s", have&^c.Permissions
	}
	var warnings []string
	if idle != 0 {
		warnings = []string{fmt.Sprintf(text, c.Role, idle, c.On)}
	}
	if next == have {
		return s, warnings, nil
	}
	return s.WithRole(r.with(c.On, next)), warnings, nil
}

// SetGroup sets the addresses of a CIDR group. If the group does not exist, SetGroup creates it. An empty list removes
// the group.
type SetGroup struct {
	Name  string
	CIDRs []netip.Prefix
}

// GroupCIDRsMax is the maximum number of ranges in a CIDR group.
const GroupCIDRsMax = 10_000

func (c *SetGroup) apply(s *State, w *Environment) (*State, []string, error) {
	if err := w.subject(s).Check(Modify, OfTable("system_auth", "cidr_groups")); err != nil {
		return nil, nil, err
	}
	switch {
	case c.Name == "" || len(c.Name) > NameBytesMax:
		return nil, nil, dberr.Invalidf("The name of a CIDR group must have 1 to %d bytes", NameBytesMax)
	case len(c.CIDRs) > GroupCIDRsMax:
		return nil, nil, dberr.Invalidf("A CIDR group cannot have more than %d ranges", GroupCIDRsMax)
	case len(c.CIDRs) > 0:
		return s.WithGroup(&Group{Name: c.Name, CIDRs: c.CIDRs}), nil, nil
	case s.Group(c.Name) == nil:
		return s, nil, nil
	}
	return s.WithoutGroup(c.Name), nil, nil
}
