// SPDX-License-Identifier: Apache-2.0

package catalog

// TableStats holds the statistics of a table, collected from all nodes.
type TableStats struct {
	// Rows and LogicalBytes are estimates from a sample of logical partitions, or exact if Exact is true. If Sampled is
	// false, both numbers are unknown and set to 0.
	Rows         uint64 `json:"rows"`
	LogicalBytes uint64 `json:"logical_bytes"`
	Sampled      bool   `json:"sampled"`
	Exact        bool   `json:"exact"`
	// Tombstones is the number of stored deletions and expired values, or a lower bound if TombstonesOrMore is true.
	// SweepLag is the time in seconds since the oldest of these deletions and values could have been removed, or 0.
	Tombstones       uint64 `json:"tombstones"`
	TombstonesOrMore bool   `json:"tombstones_or_more"`
	SweepLag         int64  `json:"sweep_lag_seconds"`
	// Read, Scan, and Write are the latencies at the coordinators of all nodes since they started.
	Read  Latency `json:"read"`
	Scan  Latency `json:"scan"`
	Write Latency `json:"write"`
	// Views holds the lag of the table's views, by the ID of the hint index.
	Views map[uint32]ViewLag `json:"-"`
	// Silent lists the nodes that did not respond.
	Silent []string `json:"silent"`
}
