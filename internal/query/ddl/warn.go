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
)

// warnings says what a change asked for that it did not get. Options that tune Cassandra's storage are kept in silence:
// they change no answer. Warned about are options by which a client would see a difference.
func (e *Executor) warnings(change schema.Change, s *schema.Schema) []string {
	switch c := change.(type) {
	case *schema.CreateKeyspace:
		return append(withoutEffect(c.Properties), e.factors(c.Name, c.Properties, s)...)
	case *schema.AlterKeyspace:
		return append(withoutEffect(c.Properties), e.factors(c.Name, c.Properties, s)...)
	case *schema.CreateTable:
		return withoutEffect(c.Properties)
	case *schema.AlterTable:
		return withoutEffect(c.Properties)
	}
	return nil
}

func withoutEffect(properties []schema.Property) []string {
	var kept []string
	for _, p := range properties {
		if strings.HasPrefix(p.Name, "cosmosdb_") || p.Name == "cdc" && strings.EqualFold(p.Value, "true") {
			kept = append(kept, p.Name)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{"Kept but without effect: " + strings.Join(kept, ", ")}
}

// factors warns, in Cassandra's words, of replication factors that the nodes cannot give; in a cluster of any that is
// not the effective one.
func (e *Executor) factors(keyspace string, properties []schema.Property, s *schema.Schema) []string {
	ks := s.Keyspace(keyspace)
	if ks == nil || !slices.ContainsFunc(properties, func(p schema.Property) bool { return p.Name == "replication" }) {
		return nil
	}
	info := e.catalog.Info()
	if replicas := info.Replicas(); replicas > 0 {
		if info.Declares(ks) {
			return nil
		}
		return []string{fmt.Sprintf("Keyspace %s has %d replicas of everything, and %d of them confirm every write, whatever replication is declared. DESCRIBE shows what was declared", keyspace, replicas, topology.Quorum(replicas))}
	}
	var warnings []string
	for _, option := range slices.Sorted(maps.Keys(ks.Replication)) {
		factor, err := strconv.Atoi(ks.Replication[option])
		if err != nil {
			continue // the class
		}
		dc, suffix := option, " for datacenter "+option
		if option == "replication_factor" {
			dc, suffix = "", ""
		}
		if nodes := info.NodesIn(dc); factor > nodes {
			warnings = append(warnings,
				fmt.Sprintf("Your replication factor %d for keyspace %s is higher than the number of nodes %d%s",
					factor, keyspace, nodes, suffix))
		}
	}
	return warnings
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
