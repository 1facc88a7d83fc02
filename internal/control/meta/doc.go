// SPDX-License-Identifier: Apache-2.0

// Package meta holds the cluster metadata, such as the schema, the topology, the nodes, and the settings. A State is an
// immutable version of the metadata.
//
// The meta partition (keys.MetaID) stores the metadata as records. All records share one version and are changed only
// by compare-and-set:
//
//	"schema/" + object     an object of schema.Objects
//	"map"                  the counters of the topology (topology.AppendHeader)
//	"map/" + partition u64 a partition, including the meta partition (topology.AppendPartition)
//	"node/" + id 16 bytes  a node (Node.Append)
//	"region/" + name       a region (Region.Append)
//	"build/" + index u32   an index whose entries are not complete yet
//	"setting/" + name      a setting, as text
//	"history/" + number u64 a completed split, merge, or move (Event.Append)
//	"role/" + name         a role and its permissions (access.Role.Append)
//	"cidr/" + name         a CIDR group (access.Group.Append)
//	"identity/" + identity the role to which a certificate identity maps
//	"dbresource/" + number a user, permission, or client encryption key of a database (dbresource.Resource.Append)
//	"dbresource/last"      the highest number of such a resource
//	"proposal/" + node     the last change by the node's Keeper: 8 random bytes, sequence u64
//	"version"              u64, on standalone nodes only; in a cluster the partition counts versions
//
// Integers are big-endian. Unknown keys are ignored. Keys that begin with byte 0 belong to the meta partition itself.
//
// Guarantees:
//
//   - (MT1) A State never changes.
//   - (MT2) A loaded State shares unchanged objects with the previous State, down to single tables.
//   - (MT3) An Update is applied at most once. Its result states whether it was applied, unless the result is
//     ErrUncertain.
//   - (MT4) When Update returns, this node has the new version, and all subscribers have received this version.
//   - (MT5) Subscribers receive versions in ascending order.
//   - (MT6) The result of ReadBarrier contains every change that was acknowledged on any node before the call.
//
// Pure functions of other packages compute the next state, such as schema.Apply and the transitions of package
// topology. Start reading at State, and then read Keeper.Update.
package meta
