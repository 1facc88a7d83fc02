// SPDX-License-Identifier: Apache-2.0

package topology

// NextReplica returns an ID that is higher than all replica IDs assigned so far.
func (s *Snapshot) NextReplica() ReplicaID { return s.nextReplica }

// Recovered returns a topology that is reconstructed from the remaining data of a cluster. It contains new partitions
// of tables and new members of the meta partition. IDs are assigned starting from partition and replica, unless the
// topology has already assigned higher IDs. The result is validated as a whole.
func (s *Snapshot) Recovered(tables map[uint32][]*Partition, meta *Partition, partition PartitionID,
	replica ReplicaID) (*Snapshot, error) {
	out := s.next()
	out.nextPartition, out.nextReplica = max(s.nextPartition, partition), max(s.nextReplica, replica)
	for table, ps := range tables {
		out.set(table, ps, s.Partitions(table), ps)
	}
	out.meta = meta
	return out.Snapshot, out.Validate()
}
