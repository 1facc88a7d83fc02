// SPDX-License-Identifier: Apache-2.0

//go:build race

package storage

// raced is true under the race detector. With the race detector, pools drop objects randomly, and all code is ten times
// slower.
const raced = true
