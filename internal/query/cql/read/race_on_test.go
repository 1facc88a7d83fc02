// SPDX-License-Identifier: Apache-2.0

//go:build race

package read

// raced is true if the race detector is enabled. The race detector makes pools drop items.
const raced = true
