// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ApplyRoles makes a change of roles that actor asks for, and returns warnings for the client. When it returns, the
// change is durable and holds on all nodes that answer.
func (c *Changer) ApplyRoles(ctx context.Context, change access.Change, actor string) ([]string, error) {
	ctx, cancel := c.Sched.WithTimeout(ctx, Wait)
	defer cancel()
	if _, err := c.Records.Refresh(ctx); err != nil { // (SC4)
		return nil, changeError("roles were", err)
	}
	var warnings []string
	state, err := c.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		roles, told, err := access.Apply(s.Roles, change, c.world(s, actor))
		if warnings = told; err != nil || roles == s.Roles {
			return s, err
		}
		return s.WithRoles(roles), nil
	})
	if err != nil {
		return nil, changeError("roles were", err)
	}
	if c.Agree != nil {
		c.Agree(ctx, state.Version)
	}
	return warnings, nil
}

// EnsureRoles gives every user of the configuration a record, which has no password: that is the configuration's. A
// record that is there already is left as it is.
func (c *Changer) EnsureRoles(ctx context.Context, users []string) error {
	_, err := c.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		roles := s.Roles
		for _, name := range users {
			if roles.Role(name) == nil {
				roles = roles.WithRole(&access.Role{Name: name, Login: true, Superuser: true, Configured: true})
			}
		}
		if roles == s.Roles {
			return s, nil
		}
		return s.WithRoles(roles), nil
	})
	return err
}

// world is what a change of roles has to know of everything else.
func (c *Changer) world(s *meta.State, actor string) *access.Environment {
	whole := c.Whole(s.Schema)
	return &access.Environment{
		Actor:       actor,
		Datacenters: c.Datacenters(),
		Configured:  c.Configured,
		Exists: func(r access.Resource) bool {
			switch r.Kind {
			case access.Table:
				return whole.Table(r.Keyspace, r.Name) != nil
			case access.Function:
				ks := whole.Keyspace(r.Keyspace)
				return procedureExists(whole, r) || ks != nil && slices.ContainsFunc(ks.Functions,
					func(f *schema.Function) bool {
						return access.OfFunction(f.Keyspace, f.Name, f.ArgTypes()) == r
					})
			}
			return whole.Keyspace(r.Keyspace) != nil
		},
	}
}

// procedureExists reports whether a container has the procedure that r is. There are no other functions.
func procedureExists(s *schema.Schema, r access.Resource) bool {
	table, id, ok := r.Procedure()
	t := s.Table(r.Keyspace, table)
	return ok && t != nil && t.Container != nil && len(t.Container.Procedures(id, true)) > 0
}

// granted is who may do what after something happened to the schema: to the role that made it everything, and nothing
// to anybody on what was dropped.
func granted(roles *access.State, next *schema.Schema, events []schema.Event, role string) *access.State {
	for _, e := range events {
		switch {
		case e.Target == schema.TargetKeyspace && e.Change == schema.Created:
			roles = roles.WithCreator(role, access.OfKeyspace(e.Keyspace), access.OfFunctions(e.Keyspace))
		case e.Target == schema.TargetTable && e.Change == schema.Created:
			if t := next.Table(e.Keyspace, e.Name); t == nil || t.View == nil { // a view is guarded by its base
				roles = roles.WithCreator(role, access.OfTable(e.Keyspace, e.Name))
			}
		case e.Target == schema.TargetKeyspace && e.Change == schema.Dropped:
			roles = roles.WithoutGrantsOn(func(r access.Resource) bool { return r.Keyspace == e.Keyspace })
		case e.Target == schema.TargetTable && e.Change == schema.Dropped:
			roles = roles.WithoutGrantsOn(func(r access.Resource) bool {
				return r == access.OfTable(e.Keyspace, e.Name)
			})
		case (e.Target == schema.TargetFunction || e.Target == schema.TargetAggregate) && e.Change == schema.Created:
			roles = roles.WithCreator(role, access.OfFunction(e.Keyspace, e.Name, e.ArgList()))
		case (e.Target == schema.TargetFunction || e.Target == schema.TargetAggregate) && e.Change == schema.Dropped:
			on := access.OfFunction(e.Keyspace, e.Name, e.ArgList())
			roles = roles.WithoutGrantsOn(func(r access.Resource) bool { return r == on })
		}
		if e.Target == schema.TargetTable && e.Change != schema.Created {
			roles = roles.WithoutGrantsOn(func(r access.Resource) bool {
				table, _, ok := r.Procedure()
				return ok && r.Keyspace == e.Keyspace && table == e.Name && !procedureExists(next, r)
			})
		}
	}
	return roles
}
