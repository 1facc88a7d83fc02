// SPDX-License-Identifier: Apache-2.0

package guardrail

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// PartitionKeys checks the number of partition keys in the IN relations of a SELECT.
func (c *Check) PartitionKeys(table string, n int) error {
	if n < 2 {
		return nil
	}
	if err := c.Combinations("partition key", n); err != nil {
		return err
	}
	return c.checkMax("partition_keys_in_select", c.PartitionKeysInSelect, int64(n), func(bound int64) string {
		return fmt.Sprintf("Query with partition keys in IN clause on table %s, with number of partition keys %d "+
			"exceeds warning threshold of %d.", table, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Aborting query with partition keys in IN clause on table %s, number of partition keys "+
			"%d exceeds fail threshold of %d.", table, n, bound)
	})
}

// Combinations checks the number of value combinations in the IN relations of a SELECT. The argument what
// describes the columns.
func (c *Check) Combinations(what string, n int) error {
	if n < 2 {
		return nil
	}
	return c.checkMax("in_select_cartesian_product", c.InSelectCartesianProduct, int64(n), func(bound int64) string {
		return fmt.Sprintf("The cartesian product of the IN restrictions on %s produces %d values, this exceeds "+
			"warning threshold of %d.", what, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Aborting query because the cartesian product of the IN restrictions on %s produces %d "+
			"values, this exceeds fail threshold of %d.", what, n, bound)
	})
}

// Page checks the page size n of a request. If n is not positive, the request is not paged.
func (c *Check) Page(table string, n int) error {
	return c.checkMax("page_size", c.PageSize, int64(n), func(bound int64) string {
		return fmt.Sprintf("Query for table %s with page size %d exceeds warning threshold of %d.", table, n, bound)
	}, func(bound int64) string {
		return fmt.Sprintf("Aborting query for table %s, page size %d exceeds fail threshold of %d.", table, n, bound)
	})
}

// ReadLevel checks the consistency level of a SELECT.
func (c *Check) ReadLevel(level dberr.Consistency) error {
	if c.ReadConsistencyLevels.none() {
		return nil
	}
	_, err := c.checkValues("read_consistency_levels", "read consistency levels", &c.ReadConsistencyLevels,
		level.String())
	return err
}

// WriteLevels checks the consistency level of a modification. If conditional is true, it also checks the serial
// consistency level.
func (c *Check) WriteLevels(level, serial dberr.Consistency, conditional bool) error {
	if c.WriteConsistencyLevels.none() {
		return nil
	}
	levels := []string{level.String()}
	if conditional {
		levels = append(levels, serial.String())
	}
	_, err := c.checkValues("write_consistency_levels", "write consistency levels", &c.WriteConsistencyLevels,
		levels...)
	return err
}

// Filtering rejects ALLOW FILTERING if ALLOW FILTERING is disabled.
func (c *Check) Filtering() error {
	return c.checkEnabled("allow_filtering", "Querying with ALLOW FILTERING is not allowed. "+
		"ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.")
}

// GroupBy rejects GROUP BY if GROUP BY is disabled.
func (c *Check) GroupBy() error {
	return c.checkEnabled("group_by", "GROUP BY functionality is not allowed")
}

// WideIndexQuery rejects a SELECT that reads an index of all partitions if such queries are disabled.
func (c *Check) WideIndexQuery() error {
	return c.checkEnabled("non_partition_restricted_index_query", "Non-partition key restricted query is not allowed. "+
		"Executing a query on secondary indexes without partition key restriction might degrade performance")
}

// UserTimestamp rejects USING TIMESTAMP if USING TIMESTAMP is disabled.
func (c *Check) UserTimestamp() error {
	return c.checkEnabled("user_timestamps", "User provided timestamps (USING TIMESTAMP) is not allowed")
}

// ListAssignment rejects an assignment to a list element by index if such assignments are disabled.
func (c *Check) ListAssignment() error {
	return c.checkEnabled("read_before_write_list_operations",
		"Setting of list items by index requiring read before write is not allowed")
}

// ListRemoval rejects the removal of a list element by index if such removals are disabled.
func (c *Check) ListRemoval() error {
	return c.checkEnabled("read_before_write_list_operations",
		"Removal of list items by index requiring read before write is not allowed")
}

// ListDiscard rejects the removal of list elements by value if such removals are disabled.
func (c *Check) ListDiscard() error {
	return c.checkEnabled("read_before_write_list_operations",
		"Removal of list items requiring read before write is not allowed")
}

// Value checks the size of a value in bytes.
func (c *Check) Value(column string, size int) error {
	text := func(kind string) func(int64) string {
		return func(bound int64) string {
			return fmt.Sprintf("Value of column '%s' has size %d, this exceeds the %s threshold of %d.", column, size,
				kind, bound)
		}
	}
	return c.checkMax("column_value_size", c.ColumnValueSize, int64(size), text("warning"), text("failure"))
}

// Collection checks the number of items and the size of a collection. It is also called with the elements that are
// added to a collection.
func (c *Check) Collection(column string, items, size int) error {
	text := func(kind string) func(int64) string {
		return func(bound int64) string {
			return fmt.Sprintf("Detected collection %s with %d items, this exceeds the %s threshold of %d.", column,
				items, kind, bound)
		}
	}
	if err := c.checkMax("items_per_collection", c.ItemsPerCollection, int64(items), text("warning"),
		text("failure")); err != nil {
		return err
	}
	text = func(kind string) func(int64) string {
		return func(bound int64) string {
			return fmt.Sprintf("Detected collection %s of size %d, this exceeds the %s threshold of %d.", column, size,
				kind, bound)
		}
	}
	return c.checkMax("collection_size", c.CollectionSize, int64(size), text("warning"), text("failure"))
}

// Timestamp checks a client's timestamp. stamp and now are in microseconds since the Unix epoch.
func (c *Check) Timestamp(table string, stamp, now int64) error {
	at := func(t Threshold, sign int64) Threshold {
		if t.Warn > 0 {
			t.Warn = now + sign*t.Warn
		}
		if t.Fail > 0 {
			t.Fail = now + sign*t.Fail
		}
		return t
	}
	text := func(side, kind, why string) func(int64) string {
		return func(bound int64) string {
			return fmt.Sprintf("The modification to table %s has a timestamp %d %s allowable %s threshold %d. Timestamps too far in the %s",
				table, stamp, side, kind, bound, why)
		}
	}
	const future, past = "future can lead to data that can't be easily overwritten",
		"past can cause writes can be unexpectedly lost"
	err := c.checkMax("maximum_timestamp", at(c.MaximumTimestamp, 1), stamp,
		text("after the maximum", "warning", future), text("after the maximum", "failure", future))
	if err != nil {
		return err
	}
	return c.checkMin("minimum_timestamp", at(c.MinimumTimestamp, -1), stamp,
		text("before the minimum", "warning", past), text("before the minimum", "failure", past))
}
