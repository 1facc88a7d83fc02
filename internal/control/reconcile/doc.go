// SPDX-License-Identifier: Apache-2.0

// Package reconcile makes the state of the nodes match the topology in small, repeatable steps.
//
//	LocalReconciler       every node: replicas on disk = members in the topology
//	MembershipReconciler  leader of a partition: Raft configuration = members in the topology, then reports voters
//	SplitReconciler       leader of a partition: executes a pending split, then records its end
//	MergeReconciler       leaders of two partitions: execute a pending merge, then record its end
//	PlacementReconciler   leader of the meta partition: records the changes that package placement schedules
//	LeaderBalancer        leader of a partition: transfers leadership to the preferred node
//	Manager               runs the reconcilers of one node
//
// Guarantees:
//
//   - (RC1) Every step can be repeated.
//   - (RC2) A replica is removed only when the topology no longer contains it.
//   - (RC3) The reconcilers store no state. After a crash, they continue from the current state.
//   - (RC4) A replica that has been split or was created by a split is never created from the topology. Only a log or a
//     snapshot creates such a replica.
//   - (RC5) The only voter of a new partition is created even if its node first sees the partition after learners have
//     been added.
//
// Start reading at NextStep.
package reconcile
