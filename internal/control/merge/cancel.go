// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Cancel returns the state in which what was ordered of a partition is taken back, and what that was, or says why it
// cannot be: a split until the partition's log has it, which is found out later, a merge until all replicas are frozen,
// replicas that are brought together to be merged, or a move. A replica that is on its way already arrives.
func Cancel(s *meta.State, table uint32, id topology.PartitionID) (next *meta.State, what string, err error) {
	p := s.Map.Partition(id)
	var m *topology.Snapshot
	switch {
	case p == nil || p.Table != table || id == topology.MetaPartition:
		return nil, "", fmt.Errorf("the table has no partition %d: see ilion partition list", id)
	case p.Cut != nil:
		what = fmt.Sprintf("the split of partition %d", id)
		m, err = s.Map.RecallSplit(id)
	case p.Join != nil && p.Join.Stage == topology.Merging:
		return nil, "", fmt.Errorf("partitions %d and %d are ready to be one: that cannot be taken back", p.Join.Left,
			p.Join.Right)
	case p.Join != nil:
		what = fmt.Sprintf("the merge of partitions %d and %d", p.Join.Left, p.Join.Right)
		m, err = s.Map.RecallJoin(id)
	case p.Wish == nil:
		return nil, "", fmt.Errorf("nothing was ordered of partition %d, or it is done: see ilion partition list", id)
	case p.Wish.With != 0:
		what = fmt.Sprintf("the merge of partitions %d and %d", id, p.Wish.With)
		m, err = s.Map.WithWish(id, nil)
		if o := s.Map.Partition(p.Wish.With); err == nil && o != nil && o.Wish != nil && o.Wish.With == id {
			m, err = m.WithWish(o.ID, nil)
		}
	default:
		what = fmt.Sprintf("the move of partition %d", id)
		m, err = s.Map.WithWish(id, nil)
	}
	if err != nil {
		return nil, "", err
	}
	return s.WithMap(m), what, nil
}
