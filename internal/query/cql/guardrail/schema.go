// SPDX-License-Identifier: Apache-2.0

package guardrail

import (
	"fmt"
	"strings"
)

// NewKeyspace checks the number of keyspaces. n is the number of user keyspaces, including the new keyspace.
func (c *Check) NewKeyspace(name string, n int) error {
	return c.checkMax("keyspaces", c.Keyspaces, int64(n), func(bound int64) string {
		return fmt.Sprintf("Creating keyspace %s, current number of keyspaces %d exceeds warning threshold of %d.",
			name, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Cannot have more than %d keyspaces, aborting the creation of keyspace %s", bound, name)
	})
}

// NewTable checks the number of tables. n is the number of user tables, including the new table.
func (c *Check) NewTable(name string, n int) error {
	return c.checkMax("tables", c.Tables, int64(n), func(bound int64) string {
		return fmt.Sprintf("Creating table %s, current number of tables %d exceeds warning threshold of %d.", name, n,
			bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Cannot have more than %d tables, aborting the creation of table %s", bound, name)
	})
}

// Columns checks the number of columns of a table.
func (c *Check) Columns(table string, n int) error {
	return c.checkMax("columns_per_table", c.ColumnsPerTable, int64(n), func(bound int64) string {
		return fmt.Sprintf("The table %s has %d columns, this exceeds the warning threshold of %d.", table, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Tables cannot have more than %d columns, but %d provided for table %s", bound, n, table)
	})
}

// Fields checks the number of fields of a type.
func (c *Check) Fields(typ string, n int) error {
	return c.checkMax("fields_per_udt", c.FieldsPerUDT, int64(n), func(bound int64) string {
		return fmt.Sprintf("The user type %s has %d columns, this exceeds the warning threshold of %d.", typ, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("User types cannot have more than %d columns, but %d provided for user type %s.", bound, n,
			typ)
	})
}

// NewIndex checks the number of indexes of a table. n includes the new index. name may be empty.
func (c *Check) NewIndex(name, table string, n int) error {
	if err := c.checkEnabled("secondary_indexes", "Creating secondary indexes is not allowed"); err != nil {
		return err
	}
	what := strings.TrimSpace(name + " on table " + table)
	return c.checkMax("secondary_indexes_per_table", c.SecondaryIndexesPerTable, int64(n), func(bound int64) string {
		return fmt.Sprintf("Creating secondary index %s, current number of indexes %d exceeds warning threshold of %d.",
			what, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Tables cannot have more than %d secondary indexes, aborting the creation of secondary index %s", bound, what)
	})
}

// NewView checks the number of materialized views of a table. n includes the new view.
func (c *Check) NewView(name, table string, n int) error {
	what := name + " on table " + table
	return c.checkMax("materialized_views_per_table", c.MaterializedViewsPerTable, int64(n), func(bound int64) string {
		return fmt.Sprintf("Creating materialized view %s, current number of views %d exceeds warning threshold of %d.",
			what, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Tables cannot have more than %d materialized views, aborting the creation of materialized "+
			"view %s", bound, what)
	})
}

// Dimensions checks the number of dimensions of a vector in a column or in a field of a type.
func (c *Check) Dimensions(column string, n int) error {
	text := func(kind string) func(int64) string {
		return func(bound int64) string {
			return fmt.Sprintf("Column %s has a vector of %d dimensions, this exceeds the %s threshold of %d.", column, n,
				kind, bound)
		}
	}
	return c.checkMax("vector_dimensions", c.VectorDimensions, int64(n), text("warning"), text("failure"))
}

// ReplicationFactor checks the replication factor of a keyspace for one data center or all data centers.
func (c *Check) ReplicationFactor(keyspace string, n int64) error {
	text := func(side, kind string) func(int64) string {
		return func(bound int64) string {
			return fmt.Sprintf("The keyspace %s has a replication factor of %d, %s the %s threshold of %d.", keyspace,
				n, side, kind, bound)
		}
	}
	err := c.checkMax("maximum_replication_factor", c.MaximumReplicationFactor, n, text("above", "warning"),
		text("above", "failure"))
	if err != nil {
		return err
	}
	return c.checkMin("minimum_replication_factor", c.MinimumReplicationFactor, n, text("below", "warning"),
		text("below", "failure"))
}

// Properties checks the options of a table. ignored holds the options that the caller must ignore.
func (c *Check) Properties(names []string) (ignored []string, err error) {
	return c.checkValues("table_properties", "Table Properties", &c.TableProperties, names...)
}

// Compact rejects COMPACT STORAGE if COMPACT STORAGE is disabled.
func (c *Check) Compact() error {
	return c.checkEnabled("compact_tables", "Creation of new COMPACT STORAGE tables is not allowed")
}

// Uncompressed rejects a table without compression if such tables are disabled.
func (c *Check) Uncompressed() error {
	return c.checkEnabled("uncompressed_tables", "Uncompressed table is not allowed")
}

// SimpleStrategy rejects SimpleStrategy if SimpleStrategy is disabled.
func (c *Check) SimpleStrategy() error {
	return c.checkEnabled("simplestrategy", "SimpleStrategy is not allowed")
}

// AlterColumns rejects column changes of ALTER TABLE if such changes are disabled.
func (c *Check) AlterColumns() error {
	return c.checkEnabled("alter_table", "ALTER TABLE changing columns is not allowed")
}

// DropTable rejects DROP TABLE and TRUNCATE if these statements are disabled.
func (c *Check) DropTable() error {
	return c.checkEnabled("drop_truncate_table", "DROP and TRUNCATE TABLE functionality is not allowed")
}

// DropKeyspace rejects DROP KEYSPACE if DROP KEYSPACE is disabled.
func (c *Check) DropKeyspace() error {
	return c.checkEnabled("drop_keyspace", "DROP KEYSPACE functionality is not allowed")
}

// WindowsWithoutTTL checks a table with TimeWindowCompactionStrategy and no default TTL.
func (c *Check) WindowsWithoutTTL() error {
	text := func(verdict string) string {
		return "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy is not " +
			verdict +
			". It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in " +
			"mind that data will not " +
			"start to automatically expire after they are older than a respective compaction window unit of a " +
			"certain size. Please set TTL " +
			"for your INSERT or UPDATE statements if you expect data to be expired as table settings will not do it. "
	}
	if err := c.checkEnabled("zero_ttl_on_twcs", text("allowed")); err != nil {
		return err
	}
	if c.ZeroTTLWarned {
		c.warn("zero_ttl_on_twcs", text("recommended"))
	}
	return nil
}
