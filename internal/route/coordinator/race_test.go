// SPDX-License-Identifier: Apache-2.0

//go:build race

package coordinator

// raceEnabled is true under the race detector, where pools forget on purpose and allocations say nothing.
const raceEnabled = true
