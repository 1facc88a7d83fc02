// SPDX-License-Identifier: Apache-2.0

// Package placement decides which nodes hold which replicas. All functions are pure: they compute the required changes
// from the metadata and the states of the nodes, and other packages make the changes.
//
// Guarantees:
//
//   - (PL1) No node holds two replicas of a partition.
//   - (PL2) A set has one, three, or four voters, never two, and at least three once it has had three.
//   - (PL3) A replica is removed only after its replacement has been added, unless its node leaves a set of four.
//   - (PL4) Each replica set makes one change at a time, and the number of changes in the cluster is bounded.
//   - (PL5) From any state, while no nodes come or go, a bounded number of calls leads to a state without further
//     changes.
//
// The node that leads the meta partition calls Schedule and applies the actions to the topology. The leader of a
// partition calls Plan, changes its Raft configuration, and publishes the result with topology.Snapshot.RecordVoters.
// Nodes create and remove their own replicas to match the topology.
//
// A set grows from one voter to three and then four. With two nodes, the second replica is a learner, because two
// voters are less available than one. Every node is a member of the meta partition, as a learner if it does not vote.
//
// Replicas are placed by the ring that drivers see, while the nodes on the ring are within a tolerance of their fair
// shares of bytes and load. Beyond the tolerance, bytes and load decide: see balancer.
//
// Start reading at Schedule, then at setInfo.step, then at Plan.
package placement
