// SPDX-License-Identifier: Apache-2.0

// Package membership manages how a node joins a cluster, stays a member, and leaves.
//
//	Bootstrap          makes a store the first node of a cluster and keeps its data
//	Joiner             asks a cluster to admit this node and waits for the metadata
//	Admission          adds a node to the metadata, on any member
//	Member             handles requests of other nodes and follows nodes that come and go
//	NodeRecordUpdater  keeps the node's own record current
//	NodeOperations     drains and decommissions nodes for operators
//	DirectoryGuard     rejects cloned and rolled-back data directories, including this node's own
//	Rejections         logs rejected connections and detects other processes with this node's ID
//
// Guarantees:
//
//   - (N1) A node is a member from the time the metadata contains it until the metadata says that it has Left. It never
//     returns with the same ID.
//   - (N2) A data directory is one node. Another directory with the same certificate, or a running copy of the directory,
//     is rejected.
//   - (N3) Data of one cluster, or of a standalone node, never gets into another cluster.
//   - (N4) A node that the other nodes need cannot be decommissioned.
//
// Package peers determines whether a member is alive; the metadata does not contain this information. Start reading at
// Joiner.Run.
package membership
