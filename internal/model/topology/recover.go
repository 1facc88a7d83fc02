// SPDX-License-Identifier: Apache-2.0

package topology

// NextReplica is above the ids of all replicas that the map has or had.
func (s *Snapshot) NextReplica() ReplicaID { return s.nextReplica }

// Recovered is a map that was made anew out of what is left of a cluster: tables have other partitions, the meta
// partition other members, and ids are given out from partition and replica on, unless the map has given out higher
// ones. It is checked as a whole.
func (s *Snapshot) Recovered(tables map[uint32][]*Partition, meta *Partition, partition PartitionID,
	replica ReplicaID) (*Snapshot, error) {
	out := s.next()
	out.nextPartition, out.nextReplica = max(s.nextPartition, partition), max(s.nextReplica, replica)
	for table, ps := range tables {
		out.setTable(table, s.Partitions(table), ps)
	}
	out.meta = meta
	return out, out.Validate()
}
