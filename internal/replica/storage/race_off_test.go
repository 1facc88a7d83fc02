// SPDX-License-Identifier: Apache-2.0

//go:build !race

package storage

// raced is true under the race detector.
const raced = false
