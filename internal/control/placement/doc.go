// SPDX-License-Identifier: Apache-2.0

// Package placement decides which node holds what. All of it is pure: it looks at a state and at a view of the nodes,
// and says what should change; others carry it out.
//
// Guarantees: (PL1) no two replicas of a partition on one node; (PL2) a set votes with one, three or four replicas,
// never with two, and with no fewer than three once it had three; (PL3) a replica goes only when another one has taken
// its place, unless its node was asked to leave a set of four; (PL4) one change per replica set at a time, and a
// bounded number in the cluster; (PL5) from any state, while nodes neither come nor go, a bounded number of calls leads
// to one in which nothing is scheduled any more.
//
// Who does what: the node that leads the meta partition calls Schedule and makes its Actions in the map. The leader of
// a partition calls Plan, changes its Raft configuration accordingly, and publishes with topology.Snapshot.RecordVoters
// what came of it. Nodes make and remove their own replicas to match the map.
//
// A set grows from one voter to three, then four. With two nodes the second is a Learner: two voters are less available
// than one. Of the meta partition every node is a member, those that do not vote as Learners.
//
// Balance goes by the ring that drivers see while the nodes that the ring names are within a tolerance of their fair
// share, of bytes by their capacity and of load, and by these beyond it: see balancer.
//
// Start at Schedule, then step in schedule.go, then Plan.
package placement
