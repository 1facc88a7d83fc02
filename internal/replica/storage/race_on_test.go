// SPDX-License-Identifier: Apache-2.0

//go:build race

package storage

// raced is true under the race detector, where pools drop at random and everything takes ten times as long.
const raced = true
