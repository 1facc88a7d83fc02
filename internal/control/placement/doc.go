// SPDX-License-Identifier: Apache-2.0

// Package placement decides which nodes hold which replicas. Its pure functions compute the required changes from the
// metadata and the states of the nodes. Other packages make the changes.
//
// Guarantees:
//
//   - (PL1) No node holds two replicas of a partition.
//   - (PL2) A set has one, three, or four voters. After it has had three voters, it never has fewer than three.
//   - (PL3) A replica is removed only after its replacement has been added, unless its node leaves a set of four.
//   - (PL4) Each replica set makes one change at a time, and the number of concurrent changes in the cluster is
//     limited.
//   - (PL5) If no nodes join or leave, a limited number of calls leads from any state to a state without further
//     changes.
//
// The node that leads the meta partition calls Schedule and applies the actions to the topology. The leader of a
// partition calls Plan, changes its Raft configuration, and publishes the result with topology.Snapshot.RecordVoters.
// Nodes create and remove their own replicas to match the topology.
//
// A set grows from one voter to three and then to four voters. With two nodes, the second replica is a learner, because
// two voters are less available than one voter. Every node is a voter or a learner of the meta partition.
//
// The ring that drivers see determines the placement of replicas while the nodes are within a tolerance of their fair
// shares of bytes and load. Beyond the tolerance, bytes and load determine the placement (see balancer).
//
// Start reading at Schedule, and then read setInfo.step and Plan.
package placement
