// SPDX-License-Identifier: Apache-2.0

// Package schemachange changes the schema of the cluster, and its roles, and has a node follow.
//
// A change has two halves. Changer computes, on the node that was asked, the next schema, a map that fits it and the
// indexes that are to be built, and has the difference recorded by compare-and-set (meta.Keeper.Update): that is the
// moment at which it happens, once or not at all. Installer carries out on every node what follows from one state of
// the records to the next, whoever changed them.
//
// Roles are changed in the same way. What a dropped table or keyspace was granted goes with it, in the same change.
//
// Guarantees: (SC1) the replicas of a new table are here before anybody can name it; (SC2) mutations planned for an
// older revision of a table are refused before statements can be planned for the new one; (SC3) a dropped table is gone
// from schema and map before its rows are; (SC4) a change is refused, or is none because there is nothing to do, by a
// state that has every change acknowledged before it was asked for, wherever that was. A crash at any point is made
// good at the next start, which installs everything from nothing (Orphans, Install). Start at Changer.Apply.
package schemachange
