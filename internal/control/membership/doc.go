// SPDX-License-Identifier: Apache-2.0

// Package membership manages the nodes of a cluster, from joining to leaving.
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
//   - (N1) A node is a member while the metadata contains the node in a state other than Left. A node that has Left
//     never returns with the same ID.
//   - (N2) A node has one data directory. Another directory with the same certificate or a running copy of the
//     directory is rejected.
//   - (N3) Data of a cluster or a standalone node never enters another cluster.
//   - (N4) A node cannot be decommissioned if the remaining nodes cannot hold its replicas.
//
// Package peers determines whether a member is alive. Start reading at Joiner.Run.
package membership
