// SPDX-License-Identifier: Apache-2.0

package topology

// MetaSet returns the replica set of the meta partition, or nil in a topology without a meta partition. Its region is
// the region of its voters. Nodes in other regions have learners in the set.
func MetaSet(s *Snapshot) *ReplicaSet {
	if s.meta == nil || len(s.meta.Sets) == 0 {
		return nil
	}
	return &s.meta.Sets[0]
}

// HomeRegion returns the region of the meta partition's voters, or "" in a topology without a meta partition. New
// tables are placed in this region.
func HomeRegion(s *Snapshot) string {
	if set := MetaSet(s); set != nil {
		return set.Region
	}
	return ""
}

// HomeSet returns the replica set that evaluates the commands of a partition, or nil if the partition has no replica
// set. If the partition has several sets, the home set is the set in HomeRegion. The result points into p.
func HomeSet(s *Snapshot, p *Partition) *ReplicaSet {
	if len(p.Sets) == 1 {
		return &p.Sets[0]
	}
	return p.Set(HomeRegion(s))
}
