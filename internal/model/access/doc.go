// SPDX-License-Identifier: Apache-2.0

// Package access knows who may do what: roles, what is granted to them, and how that changes, as pure functions over
// one immutable State with Cassandra's rules and texts.
//
// Guarantees: (AC1) whether a change is allowed is decided with the state that it changes; (AC2) no membership is a
// circle; (AC3) a grant on all keyspaces allows nothing on those of the server itself; (AC4) with a role goes
// everything that was granted on it and by membership in it. It knows neither sessions nor passwords: a hash is a text
// to it.
//
// Start at Apply for changes and at State.Resolve for questions.
package access
