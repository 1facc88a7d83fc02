// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Row is a row of a virtual table in the format of stored rows.
type Row struct {
	// Key is the serialized partition key. Clustering is the key form of the clustering columns.
	Key, Clustering []byte
	// Cells is sorted by Column and Path.
	Cells []row.Cell

	token token.Token
}

// compare orders rows in the same order as the store.
func (r *Row) compare(o *Row) int {
	return cmp.Or(r.token.Compare(o.token), bytes.Compare(r.Key, o.Key), bytes.Compare(r.Clustering, o.Clustering))
}

// Read executes a command on a virtual table. The result is the same as for a stored table with the same rows. All
// reads with the same context use the same schema. See WithLocal.
func (c *Catalog) Read(ctx context.Context, cmd *command.Read, v command.Visitor) error {
	snapshot, info := c.stateFor(ctx)
	t := snapshot.TableByID(cmd.Table)
	if t == nil || !t.Virtual {
		return dberr.Serverf("table %d is not a computed table", cmd.Table)
	}
	return scan(Rows(ctx, t, snapshot, info, cmd.Key), cmd, v)
}

// scan visits the rows that the command requests. The order of rows is arbitrary.
func scan(rows []Row, cmd *command.Read, v command.Visitor) error {
	rows = slices.DeleteFunc(rows, func(r Row) bool { return !wanted(&r, cmd) })
	slices.SortFunc(rows, func(a, b Row) int { return a.compare(&b) })
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && bytes.Equal(rows[n].Key, rows[0].Key) {
			n++
		}
		partition := rows[:n]
		rows = rows[n:]
		step, err := v.Partition(partition[0].token, partition[0].Key, nil)
		if err == nil && step == command.More && !cmd.NoRows {
			step, err = visit(partition, cmd.Reversed, v)
		}
		if err != nil {
			return err
		}
		if step == command.Stop {
			return nil
		}
	}
	return nil
}

// visit visits the rows of one partition. If it has visited all rows, it returns More.
func visit(partition []Row, reversed bool, v command.Visitor) (command.Step, error) {
	for i := range partition {
		r := &partition[i]
		if reversed {
			r = &partition[len(partition)-1-i]
		}
		step, err := v.Row(r.Clustering, &row.Row{Live: true, Liveness: row.Liveness{Expiry: row.NoExpiry},
			Cells: r.Cells})
		if err != nil || step != command.More {
			return step, err
		}
	}
	return command.More, nil
}

// wanted reports whether the command selects a row.
func wanted(r *Row, cmd *command.Read) bool {
	if cmd.Key != nil {
		if !bytes.Equal(r.Key, cmd.Key) {
			return false
		}
	} else if !cmd.Range.Contains(r.token) || !after(r, cmd) {
		return false
	}
	if len(cmd.Slices) == 0 {
		return true
	}
	return slices.ContainsFunc(cmd.Slices, func(s command.Slice) bool {
		return bytes.Compare(r.Clustering, s.Start) >= 0 && (s.End == nil || bytes.Compare(r.Clustering, s.End) < 0)
	})
}

// after reports whether a row is after the position at which the command resumes.
func after(r *Row, cmd *command.Read) bool {
	if cmd.AfterKey == nil {
		return true
	}
	if c := cmp.Or(r.token.Compare(cmd.AfterToken), bytes.Compare(r.Key, cmd.AfterKey)); c != 0 {
		return c > 0
	}
	if cmd.AfterPartition {
		return false
	}
	if cmd.Reversed {
		return bytes.Compare(r.Clustering, cmd.AfterClustering) < 0
	}
	return bytes.Compare(r.Clustering, cmd.AfterClustering) > 0
}

// Rows computes the rows of a table in no particular order. If key is not nil, the result may omit rows of other
// partitions. For a table without data, the result is empty.
func Rows(ctx context.Context, t *schema.Table, s *schema.Schema, info *NodeInfo, key []byte) []Row {
	fill := fillers[t.Keyspace+"."+t.Name]
	if fill == nil {
		return nil
	}
	if len(t.PartitionKey) > 1 {
		key = nil // fillers support only keys of one column
	}
	b := &builder{ctx: ctx, table: t, schema: s, info: info, key: key}
	fill(b)
	return b.rows
}

// fillers maps tables to the functions that compute their rows.
var fillers = map[string]func(*builder){
	"system.local":                               fillLocal,
	"system.peers":                               fillPeers,
	"system.peers_v2":                            fillPeersV2,
	"system.prepared_statements":                 fillPrepared,
	"system.IndexInfo":                           fillIndexInfo,
	"system.built_views":                         fillBuiltViews,
	"system.view_builds_in_progress":             fillViewBuilds,
	"system.size_estimates":                      fillSizeEstimates,
	"system.table_estimates":                     fillTableEstimates,
	"system_auth.cidr_groups":                    fillGroups,
	"system_auth.cidr_permissions":               fillGroupsOfRoles,
	"system_auth.identity_to_role":               fillIdentities,
	"system_auth.network_permissions":            fillNetworks,
	"system_auth.resource_role_permissons_index": fillGrantees,
	"system_auth.role_members":                   fillMembers,
	"system_auth.role_permissions":               fillGrants,
	"system_auth.roles":                          fillRoles,
	"system_schema.keyspaces":                    fillKeyspaces,
	"system_schema.tables":                       fillTables,
	"system_schema.scylla_keyspaces":             fillScyllaKeyspaces,
	"system_schema.columns":                      fillColumns,
	"system_schema.column_masks":                 fillMasks,
	"system_schema.dropped_columns":              fillDropped,
	"system_schema.aggregates":                   fillAggregates,
	"system_schema.functions":                    fillFunctions,
	"system_schema.indexes":                      fillIndexes,
	"system_schema.types":                        fillTypes,
	"system_schema.views":                        fillViews,
	"system_virtual_schema.keyspaces":            fillVirtualKeyspaces,
	"system_virtual_schema.tables":               fillVirtualTables,
	"system_virtual_schema.columns":              fillColumns,
	"system_views.caches":                        fillCaches,
	"system_views.clients":                       fillClients,
	"system_views.coordinator_read_latency":      func(b *builder) { fillLatency(b, Reads) },
	"system_views.coordinator_scan_latency":      func(b *builder) { fillLatency(b, Scans) },
	"system_views.coordinator_write_latency":     func(b *builder) { fillLatency(b, Writes) },
	"system_views.disk_usage":                    fillDiskUsage,
	"system_views.sai_column_indexes":            fillSAIIndexes,
	"system_views.settings":                      fillSettings,
	"ilion.advice":                               fillAdvice,
	"ilion.index_builds":                         fillIndexBuilds,
	"ilion.partition_changes":                    fillPartitionChanges,
	"ilion.partition_history":                    fillPartitionHistory,
	"ilion.physical_partitions":                  fillPhysicalPartitions,
	"ilion.partition_usage":                      fillPartitionUsage,
	"ilion.usage_history":                        fillUsageHistory,
	"ilion.hot_keys":                             fillHotKeys,
	"ilion.large_keys":                           fillLargeKeys,
	"ilion.user_usage":                           fillUserUsage,
	"ilion.ring":                                 fillRing,
	"ilion.sessions":                             fillSessions,
	"ilion.slow_queries":                         fillSlowQueries,
	"ilion.slow_statements":                      fillSlowStatements,
	"ilion.tables":                               fillTableStats,
	"ilion.views":                                fillViewLags,
}
