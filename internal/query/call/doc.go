// SPDX-License-Identifier: Apache-2.0

// Package call is CALL: a stored procedure of a container, run from CQL as package script runs it for REST, at the
// leader of one logical partition.
//
// Guarantees: (CA1) a name means one procedure, or is refused with those that it could mean; (CA2) what a script throws
// is a *dberr.FunctionFailure, and nothing of it was done; what the database refuses is the error that a write would
// have had. It knows nothing of permissions or sessions. Start at Prepare, then Executor.Execute.
package call
