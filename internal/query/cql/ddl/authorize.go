// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// authorize returns an error if the actor lacks the permission for a change.
func (a Actor) authorize(change schema.Change, s *schema.Schema) error {
	if a.Subject == nil {
		return nil
	}
	switch c := change.(type) {
	case *schema.CreateKeyspace:
		return a.Subject.Check(access.Create, access.Resource{Kind: access.AllKeyspaces})
	case *schema.AlterKeyspace:
		return a.Subject.Check(access.Alter, access.OfKeyspace(c.Name))
	case *schema.DropKeyspace:
		return a.Subject.Check(access.Drop, access.OfKeyspace(c.Name))
	case *schema.CreateTable:
		return a.Subject.Check(access.Create, access.OfTables(c.Keyspace))
	case *schema.AlterTable:
		return a.Subject.Check(access.Alter, access.OfTable(c.Keyspace, c.Name))
	case *schema.DropTable:
		return a.Subject.Check(access.Drop, access.OfTable(c.Keyspace, c.Name))
	case *schema.CreateType:
		return a.Subject.Check(access.Create, access.OfTables(c.Keyspace))
	case *schema.AlterType:
		return a.Subject.Check(access.Alter, access.OfTables(c.Keyspace))
	case *schema.DropType:
		return a.Subject.Check(access.Drop, access.OfTables(c.Keyspace))
	case *schema.CreateIndex:
		return a.Subject.Check(access.Alter, access.OfTable(c.Keyspace, c.Table))
	case *schema.DropIndex:
		return a.dropIndex(c, s)
	case *schema.CreateView:
		return a.Subject.Check(access.Alter, access.OfTable(c.BaseKeyspace, c.Base))
	case *schema.AlterView:
		return a.authorizeBase(s, c.Keyspace, c.Name)
	case *schema.DropView:
		return a.authorizeBase(s, c.Keyspace, c.Name)
	case *schema.CreateFunction:
		return a.createFunction(c, s)
	case *schema.CreateAggregate:
		return a.createAggregate(c, s)
	case *schema.DropFunction:
		return a.dropFunction(c, s)
	}
	// An unknown change requires all permissions.
	return a.Subject.Check(access.Authorize, access.Resource{Kind: access.AllKeyspaces})
}

// authorizeBase checks the permission on the base table of a view. If the view does not exist, applying the change
// returns the error.
func (a Actor) authorizeBase(s *schema.Schema, keyspace, name string) error {
	t := s.Table(keyspace, name)
	if t == nil || t.View == nil {
		return nil
	}
	return a.Subject.Check(access.Alter, access.OfTable(keyspace, t.View.Base))
}

// dropIndex checks the permission on the table of an index. If the index does not exist, any table may have such an
// index when the change is applied.
func (a Actor) dropIndex(c *schema.DropIndex, s *schema.Schema) error {
	if ks := s.Keyspace(c.Keyspace); ks != nil {
		for _, t := range ks.Tables {
			if t.Indexes[c.Name] != nil {
				return a.Subject.Check(access.Alter, access.OfTable(c.Keyspace, t.Name))
			}
		}
	}
	return a.Subject.Check(access.Alter, access.OfTables(c.Keyspace))
}
