// SPDX-License-Identifier: Apache-2.0

//go:build !invariants

package invariant

// Enabled says that checks are compiled in.
const Enabled = false
