// SPDX-License-Identifier: Apache-2.0

// Package schemachange changes the schema and the roles of the cluster, and applies the changes on each node.
//
// A change has two parts. Changer runs on the node that receives the statement. It computes the next schema, a matching
// topology, and the indexes to build, and records the difference by compare-and-set (meta.Keeper.Update). The change
// happens at this moment, once or not at all. Installer runs on every node and applies the difference between two
// states, regardless of which node made the change.
//
// Roles are changed in the same way. Permissions on a dropped table or keyspace are revoked in the same change.
//
// Guarantees:
//
//   - (SC1) The replicas of a new table exist before any statement can refer to the table.
//   - (SC2) Mutations planned for an older revision of a table are rejected before statements can be planned for the new
//     revision.
//   - (SC3) A dropped table is removed from the schema and the topology before its rows are removed.
//   - (SC4) A change is rejected, or is a no-op, based on a state that contains every change acknowledged on any node
//     before the request.
//
// After a crash, the next start installs everything from an empty state (RemoveOrphans, Install). Start reading at
// Changer.Apply.
package schemachange
