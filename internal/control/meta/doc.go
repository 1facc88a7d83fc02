// SPDX-License-Identifier: Apache-2.0

// Package meta is what a cluster knows about itself: schema, map, nodes and settings, as one immutable State at a time,
// and how it changes.
//
// The state is some thousand records under one version, and one for each partition, kept by the meta partition
// (keys.MetaID) and changed by compare-and-set only:
//
//	"schema/" + object     an object of schema.Objects
//	"map"                  the map's counters (topology.AppendHeader)
//	"map/" + partition u64 a partition of the map (topology.AppendPartition), that of the records, too
//	"node/" + id 16 bytes  a node (Node.Append)
//	"build/" + index u32   an index whose entries are not complete yet
//	"setting/" + name      a setting, as text
//	"history/" + number u64 a split, merge or move that has ended (Event.Append)
//	"role/" + name         a role with what is granted to it (access.Role.Append)
//	"cidr/" + name         a CIDR group (access.Group.Append)
//	"identity/" + identity the role that a certificate's identity stands for
//	"proposal/" + node     the last change that the node's keeper made: 8 random bytes of the keeper, sequence u64
//	"version"              u64, stand-alone only: in a cluster the partition counts
//
// Integers are big-endian; unknown keys are left alone. Keys that begin with byte 0 belong to the meta partition
// itself.
//
// Guarantees: (MT1) a State never changes; (MT2) a State that is loaded shares with the one before what has not
// changed, down to the single table; (MT3) an Update happens once or not at all, whatever its proposal was answered,
// unless it says ErrUncertain; (MT4) when Update returns, this node's own records are at its version and all
// subscribers have seen them; (MT5) subscribers see versions in ascending order; (MT6) what Refresh returns has
// every change that was acknowledged before the call, on whatever node. The package decides nothing: what the next
// state is, is the business of pure functions of others (schema.Apply, topology's transitions, control/placement).
// Start at State, then Keeper.Update.
package meta
