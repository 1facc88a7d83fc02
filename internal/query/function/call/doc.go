// SPDX-License-Identifier: Apache-2.0

// Package call executes CALL, which runs a stored procedure of a container from CQL. Like package script does for REST,
// it runs the procedure on the leader of one logical partition.
//
// Guarantees:
//
//   - (CA1) A procedure name refers to exactly one procedure. An ambiguous name is rejected with a list of the
//     candidates.
//   - (CA2) An exception of a script is a *dberr.FunctionFailure, and none of its changes are applied. If the database
//     rejects a change, the error is the one that a write would return.
//
// The package does not depend on permissions or sessions. Start reading at Prepare, then at Executor.Execute.
package call
