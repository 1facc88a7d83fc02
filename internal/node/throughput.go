// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// throughputs divides what tables and keyspaces may take evenly over their physical partitions, in request units a
// second. Partitions without a bound are not in it.
func throughputs(s *meta.State) map[topology.PartitionID]int64 {
	out := map[topology.PartitionID]int64{}
	for ks := range s.Schema.All() {
		var shared []*topology.Partition
		var together int64
		for _, t := range ks.Tables {
			if t.Virtual {
				continue
			}
			partitions := s.Map.Partitions(t.ID)
			switch bound := ks.Throughput(t); {
			case bound.Shared:
				shared, together = append(shared, partitions...), bound.Units
			case bound.Units > 0:
				divide(out, bound.Units, partitions)
			}
		}
		divide(out, together, shared)
	}
	return out
}

func divide(out map[topology.PartitionID]int64, units int64, partitions []*topology.Partition) {
	for _, p := range partitions {
		out[p.ID] = units / int64(len(partitions))
	}
}
