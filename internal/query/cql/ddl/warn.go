// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// warnings returns warnings about the parts of a change that have no effect. Options with a visible effect in Cassandra
// cause a warning. Options that tune Cassandra's storage are stored without a warning, because they do not change
// results.
func (e *Executor) warnings(change schema.Change, s *schema.Schema) []string {
	switch c := change.(type) {
	case *schema.CreateKeyspace:
		return append(ineffectiveWarnings(c.Properties), e.replicationWarnings(c.Name, c.Properties, s)...)
	case *schema.AlterKeyspace:
		return append(ineffectiveWarnings(c.Properties), e.replicationWarnings(c.Name, c.Properties, s)...)
	case *schema.CreateTable:
		return append(ineffectiveWarnings(c.Properties),
			feedLevelWarnings(c.Properties, s.Table(c.Keyspace, c.Name))...)
	case *schema.AlterTable:
		t := s.Table(c.Keyspace, c.Name)
		warnings := append(ineffectiveWarnings(c.Properties), feedLevelWarnings(c.Properties, t)...)
		if t == nil || c.Op == schema.SetOptions {
			return warnings
		}
		return append(warnings, slices.Repeat([]string{experimentalVectorWarning}, t.VectorIndexes())...)
	case *schema.CreateView:
		return viewFeedWarnings(c.Properties, s.Table(c.Keyspace, c.Name))
	case *schema.AlterView:
		return viewFeedWarnings(c.Properties, s.Table(c.Keyspace, c.Name))
	case *schema.CreateIndex:
		return vectorIndexWarnings(change)
	}
	return nil
}

// experimentalVectorWarning is Cassandra's warning about the vector indexes of a table. When an index is added to the
// table or the table's columns change, the warning is sent for each vector index.
const experimentalVectorWarning = "SAI ANN indexes on vector columns are experimental and are not recommended for production use.\n" +
	"They don't yet support SELECT queries with:\n * Consistency level higher than ONE/LOCAL_ONE.\n * Paging.\n" +
	" * No LIMIT clauses.\n * PER PARTITION LIMIT clauses.\n * GROUP BY clauses.\n * Aggregation functions.\n" +
	" * Filters on columns without a SAI index."

// vectorIndexWarnings returns the warnings about vector indexes for CREATE INDEX. It returns the warnings even if the
// statement did not create an index.
func vectorIndexWarnings(change schema.Change) []string {
	if c, ok := change.(*schema.CreateIndex); ok && c.Examined > 0 {
		return slices.Repeat([]string{experimentalVectorWarning}, c.Examined)
	}
	return nil
}

// feedLevelWarnings returns warnings about a table with cdc = true whose changes are not logged.
func feedLevelWarnings(properties []schema.Property, t *schema.Table) []string {
	asked := slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "cdc" })
	if t == nil || !asked || !t.Options.CDC || t.Logged() {
		return nil
	}
	return []string{fmt.Sprintf("The changes of %s are not logged: cdc = true requires a feature level that some nodes do "+
		"not support. Upgrade all nodes, run \"ilion upgrade\", and repeat "+
		"ALTER TABLE %[1]s WITH cdc = true", t)}
}

// viewFeedWarnings returns warnings about a view with cdc = true, because a view has no change feed.
func viewFeedWarnings(properties []schema.Property, t *schema.Table) []string {
	asked := slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "cdc" })
	if t == nil || t.View == nil || !asked || !t.Options.CDC {
		return nil
	}
	return []string{fmt.Sprintf("The changes of %s are not logged: a materialized view has no change feed. Use the change feed "+
		"of its base table %s.%s", t, t.Keyspace, t.View.Base)}
}

func ineffectiveWarnings(properties []schema.Property) []string {
	var kept []string
	for _, p := range properties {
		if strings.HasPrefix(p.Name, "cosmosdb_cell_level") {
			kept = append(kept, p.Name)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{"Stored but ignored: " + strings.Join(kept, ", ")}
}

// replicationWarnings returns warnings about a replication that differs from the effective replication. On a standalone
// node, each change to a keyspace causes Cassandra's warning if a replication factor exceeds the number of nodes. The
// other warnings are returned only if the statement sets the replication.
func (e *Executor) replicationWarnings(keyspace string, properties []schema.Property, s *schema.Schema) []string {
	ks := s.Keyspace(keyspace)
	if ks == nil {
		return nil
	}
	given := slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "replication" })
	info := e.catalog.Info()
	absent := absentDatacenters(ks, info.Datacenters())
	var warnings []string
	if replicas := info.EffectiveReplication; replicas == 0 {
		warnings = shortFactors(ks, &info, absent)
		if given && len(absent) > 0 {
			warnings = append(warnings,
				fmt.Sprintf("The replication of keyspace %s is ignored: every table has one replica, on this node in %s. "+
					"DESCRIBE shows the declared replication", keyspace, info.Datacenters()[0]))
		}
	} else if given && !info.Declares(ks) {
		warnings = []string{fmt.Sprintf("The replication of keyspace %s is ignored: every table has %d replicas, "+
			"and %d must acknowledge a "+
			"write. DESCRIBE shows the declared replication", keyspace, replicas, topology.Quorum(replicas))}
	}
	if given && len(absent) > 0 {
		them := "them"
		if len(absent) == 1 {
			them = "it"
		}
		warnings = append(warnings, fmt.Sprintf("No node is in %s: the replication declared for %s has no effect",
			strings.Join(absent, ", "), them))
	}
	return warnings
}

// shortFactors returns Cassandra's warnings about replication factors that exceed the number of nodes.
func shortFactors(ks *schema.Keyspace, info *catalog.NodeInfo, absent []string) []string {
	var warnings []string
	for _, option := range slices.Sorted(maps.Keys(ks.Replication)) {
		factor, err := strconv.Atoi(ks.Replication[option])
		if err != nil || slices.Contains(absent, option) {
			continue // the class, or a data center that causes a different warning
		}
		dc, suffix := option, " for datacenter "+option
		if option == "replication_factor" {
			dc, suffix = "", ""
		}
		if nodes := info.NodesIn(dc); factor > nodes {
			warnings = append(warnings,
				fmt.Sprintf("Your replication factor %d for keyspace %s is higher than the number of nodes %d%s",
					factor, ks.Name, nodes, suffix))
		}
	}
	return warnings
}

// absentDatacenters returns the data centers in a replication that have no nodes, in ascending order.
func absentDatacenters(ks *schema.Keyspace, present []string) []string {
	if schema.StrategyName(ks.Replication) != "NetworkTopologyStrategy" {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(ks.Replication)), func(option string) bool {
		return option == "class" || slices.Contains(present, option)
	})
}

// unknownOrder returns warnings for undeclared columns in the CLUSTERING ORDER BY of a rejected table. Cassandra's
// error text contains a different column.
func unknownOrder(change schema.Change) []string {
	c, ok := change.(*schema.CreateTable)
	if !ok {
		return nil
	}
	var warnings []string
	for _, o := range c.Order {
		if !slices.ContainsFunc(c.Columns, func(col schema.ColumnSpec) bool { return col.Name == o.Column }) {
			warnings = append(warnings, fmt.Sprintf("Column '%s' in CLUSTERING ORDER BY is not declared", o.Column))
		}
	}
	return warnings
}
