// SPDX-License-Identifier: Apache-2.0

//go:build race

package session

// raced is true under the race detector, which makes pools drop items.
const raced = true
