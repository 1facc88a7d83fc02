// SPDX-License-Identifier: Apache-2.0

// Package membership is how a node becomes one of a cluster, stays one and leaves it.
//
//	Found      makes a store the first node of a cluster, with the data that are in it
//	Joining    asks a cluster to take this node in, and waits for its records
//	Admission  takes a newcomer into the records, on any member that is asked
//	Member     answers what others ask about this node, and follows nodes that come and go
//	Presence   keeps a node's own record true
//	Orders     what an operator tells the cluster about a node: drain, decommission
//	Originals  keeps copies and earlier states of data directories out, this node's own among them
//	Strangers  whose connections were turned away, and other processes that go by this node's identity
//
// Guarantees: (N1) a node is a member from the moment at which the records have it, and no longer than until they say
// that it has Left; then it never comes back under its id; (N2) a data directory is one node: another directory with
// the same certificate, or a copy of it that runs beside it, is refused; (N3) data of one cluster, or of a node that
// stood alone, never get into another cluster; (N4) no node is told to leave that the others could not do without.
//
// Whether a member answers is not a matter of record: package peers knows. Start at Joining.Run.
package membership
