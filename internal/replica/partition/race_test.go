// SPDX-License-Identifier: Apache-2.0

//go:build race

package partition

// raceEnabled is true under the race detector. With the race detector, pools drop objects randomly, so allocation
// counts are not meaningful.
const raceEnabled = true
