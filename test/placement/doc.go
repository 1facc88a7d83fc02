// SPDX-License-Identifier: Apache-2.0

// Package placement simulates the balance of a large cluster: nodes, partitions, sizes and the time that moves take,
// around the decisions of control/placement, in virtual time. Run with -long for 1,000 nodes and 100,000 partitions.
package placement
