// SPDX-License-Identifier: Apache-2.0

// Package placement simulates the balancing of a large cluster in virtual time. It models nodes, partitions, sizes,
// and the duration of moves. Package control/placement makes the decisions. To simulate 1,000 nodes and 100,000
// partitions, run it with -long.
package placement
