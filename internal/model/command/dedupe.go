// SPDX-License-Identifier: Apache-2.0

package command

import "time"

// A conditional stores a dedupe record next to its rows. The record identifies retries. These two limits are the same
// on every node, regardless of the options of the node.
const (
	// DedupeSeconds is the minimum number of seconds for which a dedupe record is kept. The record of a part of an
	// atomic batch is kept longer, namely until the record of the batch is removed.
	DedupeSeconds = 120
	// DedupeReach is the maximum age at which a conditional without a dedupe record may still be evaluated. An older
	// conditional may already have been applied, and its record may already have been swept. The difference between
	// DedupeReach and DedupeSeconds allows for clocks that are rounded to seconds and that differ by a few seconds.
	DedupeReach = DedupeSeconds / 2 * time.Second
)
