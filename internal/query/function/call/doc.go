// SPDX-License-Identifier: Apache-2.0

// Package call executes CALL statements, which run stored procedures of containers from CQL. Each procedure runs on the
// leader of one logical partition.
//
// Guarantees:
//
//   - (CA1) A procedure name refers to exactly one procedure. An ambiguous name is rejected with a list of the
//     candidates.
//   - (CA2) An exception in a script is reported as a *dberr.FunctionFailure, and no changes of the script are applied.
//     If the database rejects a change, the error is the same as for a write.
//
// The package does not depend on permissions or sessions. Start reading at Prepare and continue with Executor.Execute.
package call
