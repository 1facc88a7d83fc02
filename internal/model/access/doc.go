// SPDX-License-Identifier: Apache-2.0

// Package access implements access control. It defines roles, their grants, and the changes to both. All functions are
// pure functions of an immutable State. The functions follow Cassandra's rules and return Cassandra's error texts.
//
// Guarantees:
//
//   - (AC1) A change is authorized against the state that it changes.
//   - (AC2) Role memberships contain no cycle.
//   - (AC3) A grant on all keyspaces does not include the server's own keyspaces.
//   - (AC4) Dropping a role removes all grants on it and all its memberships.
//
// The package does not depend on sessions or passwords.
//
// Start reading at Apply for changes and at State.Resolve for queries.
package access
