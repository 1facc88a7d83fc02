// SPDX-License-Identifier: Apache-2.0

package command

import "time"

// A conditional leaves a dedupe record beside its rows, by which a repetition is recognized. These two bounds are the
// same on every node, whatever its options are.
const (
	// DedupeSeconds is for how many seconds a dedupe record is kept at least. The record of a part of an atomic batch
	// is kept longer, until the record of the batch is removed.
	DedupeSeconds = 120
	// DedupeReach is the greatest age at which a conditional without a dedupe record may still be evaluated. An older
	// one may have been applied already, and its record swept. The difference to DedupeSeconds is for the clocks: they
	// are rounded to seconds, and those of two nodes differ by a few seconds at most.
	DedupeReach = DedupeSeconds / 2 * time.Second
)
