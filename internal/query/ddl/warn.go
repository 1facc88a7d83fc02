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
	"github.com/ilion-db/ilion/internal/query/catalog"
)

// warnings says what a change asked for that it did not get. Options that tune Cassandra's storage are kept in silence:
// they change no answer. Warned about are options by which a client would see a difference.
func (e *Executor) warnings(change schema.Change, s *schema.Schema) []string {
	switch c := change.(type) {
	case *schema.CreateKeyspace:
		return append(ineffectiveWarnings(c.Properties), e.replicationWarnings(c.Name, c.Properties, s)...)
	case *schema.AlterKeyspace:
		return append(ineffectiveWarnings(c.Properties), e.replicationWarnings(c.Name, c.Properties, s)...)
	case *schema.CreateTable:
		return append(ineffectiveWarnings(c.Properties), feedLevelWarnings(c.Properties, s.Table(c.Keyspace, c.Name))...)
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

// vectorsAreNew is what Cassandra says of each index on vectors that a table has, whenever it gets a further index or
// other columns.
const experimentalVectorWarning = "SAI ANN indexes on vector columns are experimental and are not recommended for production use.\n" +
	"They don't yet support SELECT queries with:\n * Consistency level higher than ONE/LOCAL_ONE.\n * Paging.\n" +
	" * No LIMIT clauses.\n * PER PARTITION LIMIT clauses.\n * GROUP BY clauses.\n * Aggregation functions.\n" +
	" * Filters on columns without a SAI index."

// ofVectors are the warnings of a new index, whether it was made or refused, about those on vectors.
func vectorIndexWarnings(change schema.Change) []string {
	if c, ok := change.(*schema.CreateIndex); ok && c.Examined > 0 {
		return slices.Repeat([]string{experimentalVectorWarning}, c.Examined)
	}
	return nil
}

// withoutFeed warns of a table that is to have a change feed and has none.
func feedLevelWarnings(properties []schema.Property, t *schema.Table) []string {
	asked := slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "cdc" })
	if t == nil || !asked || !t.Options.CDC || t.Logged() {
		return nil
	}
	return []string{fmt.Sprintf("The changes of %s are not logged: cdc = true needs a feature level that some node does "+
		"not understand. When all nodes run a build that has it, raise the level with \"ilion upgrade\" and repeat "+
		"ALTER TABLE %[1]s WITH cdc = true", t)}
}

// viewWithoutFeed warns of cdc = true for a view: what it has is that of its base, at other places.
func viewFeedWarnings(properties []schema.Property, t *schema.Table) []string {
	asked := slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "cdc" })
	if t == nil || t.View == nil || !asked || !t.Options.CDC {
		return nil
	}
	return []string{fmt.Sprintf("The changes of %s are not logged: a materialized view has no change feed. Follow that "+
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
	return []string{"Kept but without effect: " + strings.Join(kept, ", ")}
}

// factors warns of a replication that is not the one that holds here. Stand-alone, factors that the nodes cannot give
// are told in Cassandra's words, with every change of the keyspace; the rest if the replication was given.
func (e *Executor) replicationWarnings(keyspace string, properties []schema.Property, s *schema.Schema) []string {
	ks := s.Keyspace(keyspace)
	if ks == nil {
		return nil
	}
	given := slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "replication" })
	info := e.catalog.Info()
	absent := absentDatacenters(ks, info.Datacenters())
	var warnings []string
	if replicas := info.Replicas(); replicas == 0 {
		warnings = shortFactors(ks, &info, absent)
		if given && len(absent) > 0 {
			warnings = append(warnings, fmt.Sprintf("Keyspace %s has one copy of everything, on this node in %s, "+
				"whatever replication is declared. DESCRIBE shows what was declared", keyspace, info.Datacenters()[0]))
		}
	} else if given && !info.Declares(ks) {
		warnings = []string{fmt.Sprintf("Keyspace %s has %d replicas of everything, and %d of them confirm every "+
			"write, whatever replication is declared. DESCRIBE shows what was declared", keyspace, replicas, topology.Quorum(replicas))}
	}
	if given && len(absent) > 0 {
		them := "them"
		if len(absent) == 1 {
			them = "it"
		}
		warnings = append(warnings, fmt.Sprintf("No node is in %s: what is declared for %s has no effect",
			strings.Join(absent, ", "), them))
	}
	return warnings
}

// shortFactors warns, in Cassandra's words, of factors above the number of nodes.
func shortFactors(ks *schema.Keyspace, info *catalog.NodeInfo, absent []string) []string {
	var warnings []string
	for _, option := range slices.Sorted(maps.Keys(ks.Replication)) {
		factor, err := strconv.Atoi(ks.Replication[option])
		if err != nil || slices.Contains(absent, option) {
			continue // the class, or a data centre that has a warning of its own
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

// absentDatacenters lists the data centres of a replication that have no node, ascending.
func absentDatacenters(ks *schema.Keyspace, present []string) []string {
	if schema.StrategyName(ks.Replication) != "NetworkTopologyStrategy" {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(ks.Replication)), func(option string) bool {
		return option == "class" || slices.Contains(present, option)
	})
}

// unknownOrder names the columns of a refused table's CLUSTERING ORDER BY that it does not declare: Cassandra's error
// speaks of another column.
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
