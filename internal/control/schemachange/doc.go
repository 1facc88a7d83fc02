// SPDX-License-Identifier: Apache-2.0

// Package schemachange changes the schema and the roles of the cluster, and applies the changes on each node.
//
// A change has two parts. Changer runs on the node that receives the statement. It computes the next schema, a matching
// topology, and the indexes to build, and records the difference by compare-and-set (meta.Keeper.Update). Installer
// runs on every node and applies the difference between two states.
//
// Roles are changed in the same way. The change that drops a table or keyspace also revokes permissions on the dropped
// object.
//
// Guarantees:
//
//   - (SC1) The replicas of a new table exist before any statement can refer to the table.
//   - (SC2) Before statements can be planned for a new revision of a table, mutations that were planned for an older
//     revision are rejected.
//   - (SC3) A dropped table is removed from the schema and the topology before its rows are removed.
//   - (SC4) The decision to reject a change or to treat it as a no-op is based on a state that contains every change
//     acknowledged before the request.
//
// After a crash, the next start installs the whole metadata (RemoveOrphans, Install). Start reading at Changer.Apply.
package schemachange
