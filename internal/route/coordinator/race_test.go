// SPDX-License-Identifier: Apache-2.0

//go:build race

package coordinator

// raceEnabled is true if the race detector is enabled. The race detector makes pools drop random objects, so allocation
// counts are not meaningful.
const raceEnabled = true
