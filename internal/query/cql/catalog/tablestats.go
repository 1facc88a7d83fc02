// SPDX-License-Identifier: Apache-2.0

package catalog

// TableStats holds the statistics of a table from all nodes.
type TableStats struct {
	// Rows and LogicalBytes are estimates from a sample of logical partitions. If Exact is true, both numbers are
	// exact. If Sampled is false, both numbers are unknown and 0.
	Rows         uint64 `json:"rows"`
	LogicalBytes uint64 `json:"logical_bytes"`
	Sampled      bool   `json:"sampled"`
	Exact        bool   `json:"exact"`
	// Tombstones is the number of stored deletions and expired values, or a lower bound if TombstonesOrMore is true.
	// SweepLag is the time in seconds since the first of these deletions and values could be removed, or 0.
	Tombstones       uint64 `json:"tombstones"`
	TombstonesOrMore bool   `json:"tombstones_or_more"`
	SweepLag         int64  `json:"sweep_lag_seconds"`
	// Read, Scan, and Write are the latencies of all coordinators since the start of each node.
	Read  Latency `json:"read"`
	Scan  Latency `json:"scan"`
	Write Latency `json:"write"`
	// Views holds the lags of the table's views by the ID of the hint index.
	Views map[uint32]ViewLag `json:"-"`
	// Silent lists the nodes that did not respond.
	Silent []string `json:"silent"`
}
