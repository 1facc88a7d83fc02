// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// guard refuses changes of system keyspaces as Cassandra's permission check does, which comes before the schema is
// looked at. What it lets through, the transitions refuse in words of their own.
func guard(change schema.Change, r *compat.Release) error {
	switch c := change.(type) {
	case *schema.AlterKeyspace:
		return local(c.Name)
	case *schema.DropKeyspace:
		return protect(r, c.Name, "DROP", "keyspace "+c.Name)
	case *schema.CreateTable:
		return protect(r, c.Keyspace, "CREATE", "keyspace "+c.Keyspace)
	case *schema.CreateType:
		return protect(r, c.Keyspace, "CREATE", "keyspace "+c.Keyspace)
	case *schema.AlterTable:
		return protect(r, c.Keyspace, "ALTER", "table "+c.Keyspace+"."+c.Name)
	case *schema.DropTable:
		return protect(r, c.Keyspace, "DROP", "table "+c.Keyspace+"."+c.Name)
	case *schema.AlterType:
		return local(c.Keyspace)
	case *schema.DropType:
		return protect(r, c.Keyspace, "DROP", "keyspace "+c.Keyspace)
	case *schema.CreateView:
		return protect(r, c.Keyspace, "ALTER", "table "+c.BaseKeyspace+"."+c.Base)
	case *schema.CreateIndex:
		return protect(r, c.Keyspace, "ALTER", "table "+c.Keyspace+"."+c.Table)
	}
	return nil
}

func local(keyspace string) error {
	if schema.IsLocalSystem(keyspace) {
		return dberr.Unauthorizedf("%s keyspace is not user-modifiable.", keyspace)
	}
	return nil
}

func protect(r *compat.Release, keyspace, permission, resource string) error {
	if schema.IsVirtualSystem(keyspace) && !r.VirtualTexts {
		return dberr.Unauthorizedf("%s keyspace is not user-modifiable.", keyspace)
	}
	if schema.IsReplicatedSystem(keyspace) {
		return dberr.Unauthorizedf("Cannot %s <%s>", permission, resource)
	}
	return local(keyspace)
}
