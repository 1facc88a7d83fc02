// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// checkSystemKeyspace rejects changes to system keyspaces. Like Cassandra's permission check, it precedes the check of
// the schema. Applying other changes may return different errors.
func checkSystemKeyspace(change schema.Change, r *compat.Release) error {
	switch c := change.(type) {
	case *schema.AlterKeyspace:
		return checkLocalSystem(c.Name)
	case *schema.DropKeyspace:
		return checkProtected(r, c.Name, "DROP", "keyspace "+c.Name)
	case *schema.CreateTable:
		return checkProtected(r, c.Keyspace, "CREATE", "keyspace "+c.Keyspace)
	case *schema.CreateType:
		return checkProtected(r, c.Keyspace, "CREATE", "keyspace "+c.Keyspace)
	case *schema.AlterTable:
		return checkProtected(r, c.Keyspace, "ALTER", "table "+c.Keyspace+"."+c.Name)
	case *schema.DropTable:
		return checkProtected(r, c.Keyspace, "DROP", "table "+c.Keyspace+"."+c.Name)
	case *schema.AlterType:
		return checkLocalSystem(c.Keyspace)
	case *schema.DropType:
		return checkProtected(r, c.Keyspace, "DROP", "keyspace "+c.Keyspace)
	case *schema.CreateView:
		return checkProtected(r, c.Keyspace, "ALTER", "table "+c.BaseKeyspace+"."+c.Base)
	case *schema.CreateIndex:
		return checkProtected(r, c.Keyspace, "ALTER", "table "+c.Keyspace+"."+c.Table)
	}
	return nil
}

func checkLocalSystem(keyspace string) error {
	if schema.IsLocalSystem(keyspace) {
		return dberr.Unauthorizedf("%s keyspace is not user-modifiable.", keyspace)
	}
	return nil
}

func checkProtected(r *compat.Release, keyspace, permission, resource string) error {
	if schema.IsVirtualSystem(keyspace) && !r.VirtualTexts {
		return dberr.Unauthorizedf("%s keyspace is not user-modifiable.", keyspace)
	}
	if schema.IsReplicatedSystem(keyspace) {
		return dberr.Unauthorizedf("Cannot %s <%s>", permission, resource)
	}
	return checkLocalSystem(keyspace)
}
