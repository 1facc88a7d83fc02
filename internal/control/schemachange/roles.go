// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"
	"log/slog"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ApplyRoles makes a change of roles for actor and returns warnings for the client. When it returns, the change is
// durable and effective on all live nodes.
func (c *Changer) ApplyRoles(ctx context.Context, change access.Change, actor string) ([]string, error) {
	ctx, cancel := c.Sched.WithTimeout(ctx, c.timeout())
	defer cancel()
	if _, err := c.Metadata.ReadBarrier(ctx); err != nil { // (SC4)
		return nil, changeError("roles were", err)
	}
	var warnings []string
	state, err := c.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		roles, told, err := access.Apply(s.Roles, change, c.world(s, actor))
		if warnings = told; err != nil || roles == s.Roles {
			return s, err
		}
		return s.WithRoles(roles), nil
	})
	if err != nil {
		return nil, changeError("roles were", err)
	}
	if c.Member != nil {
		c.Member.AwaitAgreement(ctx, state.Version)
	}
	return warnings, nil
}

// EnsureRoles creates a record without a password for every user in the configuration. It does not change existing
// records.
func (c *Changer) EnsureRoles(ctx context.Context, users []string) error {
	_, err := c.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
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

// RetryEnsureRoles calls EnsureRoles until it succeeds, the metadata is closed, or ctx ends. In a cluster, the meta
// partition may have no leader yet.
func (c *Changer) RetryEnsureRoles(ctx context.Context, users []string, log *slog.Logger) {
	meta.Retry(ctx, log, "cannot create the roles of configured users yet", Timeout, func(ctx context.Context) error {
		return c.EnsureRoles(ctx, users)
	})
}

// world returns the parts of the state on which a change of roles depends, except the roles.
func (c *Changer) world(s *meta.State, actor string) *access.Environment {
	whole := c.Catalog.WithSystem(s.Schema)
	return &access.Environment{
		Actor:       actor,
		Datacenters: c.Catalog.Datacenters(),
		Configured:  c.Users,
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

// procedureExists reports whether a container has the procedure r.
func procedureExists(s *schema.Schema, r access.Resource) bool {
	table, id, ok := r.Procedure()
	t := s.Table(r.Keyspace, table)
	return ok && t != nil && t.Container != nil && len(t.Container.Procedures(id, true)) > 0
}

// granted returns the permissions after schema events. role gets all permissions on created objects, and permissions on
// dropped objects are revoked.
func granted(roles *access.State, next *schema.Schema, events []schema.Event, role string) *access.State {
	for _, e := range events {
		switch {
		case e.Target == schema.TargetKeyspace && e.Change == schema.Created:
			roles = roles.WithCreator(role, access.OfKeyspace(e.Keyspace), access.OfFunctions(e.Keyspace))
		case e.Target == schema.TargetTable && e.Change == schema.Created:
			if t := next.Table(e.Keyspace, e.Name); t == nil ||
				t.View == nil { // views use the permissions on their base tables
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
