// SPDX-License-Identifier: Apache-2.0

// Package throughput says what the throughputs of tables and keyspaces mean for physical partitions: how much each may
// take, and how many there have to be. It is pure, over the records.
package throughput

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
)

// atFirst is for how much of a throughput, in request units a second, a table is created with a physical partition.
const atFirst = 6_000

// AtFirst is how many physical partitions a table begins with because of a throughput, in request units a second; 0 if
// it has none.
func AtFirst(units int64) int { return int((units + atFirst - 1) / atFirst) }

// Least is how many physical partitions a throughput needs at least to be spent; 0 if there is none.
func Least(units int64) int { return int((units + budget.Most - 1) / budget.Most) }

// Divide divides what tables and keyspaces may take evenly over their physical partitions, in request units a second.
// Partitions without a bound are not in it.
func Divide(s *meta.State) map[topology.PartitionID]int64 {
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
