// SPDX-License-Identifier: Apache-2.0

//go:build !invariants

package invariant

// Enabled reports whether checks are compiled in.
const Enabled = false
