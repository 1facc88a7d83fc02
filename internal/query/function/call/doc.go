// SPDX-License-Identifier: Apache-2.0

// Package call executes CALL, which runs a stored procedure of a container from CQL. It runs the procedure on the
// leader of one logical partition, as package script does for REST.
//
// Guarantees:
//
//   - (CA1) A procedure name refers to exactly one procedure. An ambiguous name is rejected with a list of the
//     candidates.
//   - (CA2) An exception in a script is reported as a *dberr.FunctionFailure, and no changes of the script are applied.
//     If the database rejects a change, the error is the one that a write would return.
//
// The package does not depend on permissions or sessions. Start reading at Prepare, then at Executor.Execute.
package call
