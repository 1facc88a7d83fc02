// SPDX-License-Identifier: Apache-2.0

// Package recovery creates a cluster from the surviving nodes of a cluster if replica sets have permanently lost a
// majority of their replicas. It works on the data directories of stopped nodes in three steps:
//
//	Inspect  reads a directory and returns a NodeState with the ends of all logs and the metadata
//	Make     creates a Plan from the states of all survivors, for review by an operator; pure
//	Apply    applies a plan to one directory
//
// Guarantees:
//
//   - (RV1) Inspect does not change the directory. Make and Apply reject uncertain cases, such as a member that was
//     neither inspected nor named as lost, a changed directory, or a directory of another cluster.
//   - (RV2) A replica set that has lost its majority continues from the survivor with the longest log in Raft's order.
//     If less than a quorum of the voters is lost, no acknowledged write is lost (see lossOf).
//   - (RV3) The recovered cluster has a new identity. Its members reject all other directories of the old cluster at
//     the first message.
//   - (RV4) Apply can be interrupted at any time and repeated. The node does not start until Apply has finished.
//   - (RV5) No replica ID is used twice. Make skips IDs that may have been assigned and are missing from the metadata.
//
// The package does not communicate with other nodes. Start reading at Make.
package recovery
