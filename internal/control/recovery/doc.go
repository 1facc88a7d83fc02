// SPDX-License-Identifier: Apache-2.0

// Package recovery makes a cluster of what is left of one: nodes are lost for ever, with their disks, and with them the
// majority of some replica sets. It works on the data directories of nodes that are stopped, in three steps.
//
//	Take   reads a directory: a Survey, which has the ends of all logs and the cluster's records
//	Make   a Plan out of the surveys of all survivors: pure, and to be read by a person before anything is done
//	Apply  carries a plan out in one directory
//
// Guarantees: (RV1) Take changes nothing, and Make and Apply refuse what is not sure: a member that was neither
// surveyed nor named as lost, a directory that has changed since, one of another cluster; (RV2) of each replica set
// whose majority is lost the survivor with the longest log, by Raft's order, goes on, so nothing is lost that any
// survivor has, and where fewer voters are lost than a quorum, nothing that was acknowledged: see lossOf; (RV3) what is
// left is a cluster of another identity, so that a directory of the old one, be it of a lost node that comes back or of
// a survivor that was forgotten, is refused by every member, at its first message; (RV4) Apply may end at any moment
// and be begun again: until it has ended the node does not start; (RV5) no replica id is used twice: those that the
// records may have forgotten are passed over.
//
// The package asks nobody anything. Start at Make.
package recovery
