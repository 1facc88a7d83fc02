// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Cancel returns the state in which the pending change of a partition is canceled, and a description of the change. It
// cancels a split that is not yet in the partition's log, a merge whose replicas are not all frozen, the colocation of
// replicas for a merge, or a move. A split that is already in the log is completed. A replica that is already being
// moved completes its move. Cancel returns an error if the change cannot be canceled.
func Cancel(s *meta.State, table uint32, id topology.PartitionID) (next *meta.State, what string, err error) {
	p := s.Topology.Partition(id)
	var m *topology.Snapshot
	switch {
	case p == nil || p.Table != table || id == topology.MetaPartition:
		return nil, "", fmt.Errorf("the table has no partition %d. Run \"ilion partition list\" to list its partitions",
			id)
	case p.Split != nil:
		what = fmt.Sprintf("the split of partition %d", id)
		m, err = s.Topology.CancelSplit(id)
	case p.Merge != nil && p.Merge.Stage == topology.Merging:
		return nil, "", fmt.Errorf("cannot cancel the merge of partitions %d and %d: all replicas are frozen",
			p.Merge.Left,
			p.Merge.Right)
	case p.Merge != nil:
		what = fmt.Sprintf("the merge of partitions %d and %d", p.Merge.Left, p.Merge.Right)
		m, err = s.Topology.CancelMerge(id)
	case p.Pin == nil:
		return nil, "", fmt.Errorf("partition %d has no pending change. Run \"ilion partition list\" to list changes",
			id)
	case p.Pin.MergeWith != 0:
		what = fmt.Sprintf("the merge of partitions %d and %d", id, p.Pin.MergeWith)
		m, err = s.Topology.WithPin(id, nil)
		if o := s.Topology.Partition(p.Pin.MergeWith); err == nil && o != nil && o.Pin != nil && o.Pin.MergeWith == id {
			m, err = m.WithPin(o.ID, nil)
		}
	default:
		what = fmt.Sprintf("the move of partition %d", id)
		m, err = s.Topology.WithPin(id, nil)
	}
	if err != nil {
		return nil, "", err
	}
	return s.WithTopology(m), what, nil
}
