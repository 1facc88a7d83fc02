// SPDX-License-Identifier: Apache-2.0

// Package throughput computes the effects of provisioned throughputs on physical partitions. It determines the
// throughput of each partition, the required number of partitions, and the partitions to split. All functions are pure
// functions of the cluster metadata.
package throughput

import (
	"iter"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// unitsPerInitialPartition is the throughput, in request units per second, for each initial physical partition of a new
// table.
const unitsPerInitialPartition = 6_000

// provision is a throughput in request units per second and the tables that own or share it.
type provision struct {
	units  int64
	tables []uint32
}

// provisions returns all throughputs in a state.
func provisions(s *meta.State) iter.Seq[provision] {
	return func(yield func(provision) bool) {
		for ks := range s.Schema.All() {
			var shared provision
			for _, t := range ks.Tables {
				if t.Virtual {
					continue
				}
				switch bound := ks.Throughput(t); {
				case bound.Shared:
					shared.units, shared.tables = bound.Units, append(shared.tables, t.ID)
				case bound.Units > 0 && !yield(provision{bound.Units, []uint32{t.ID}}):
					return
				}
			}
			slices.Sort(shared.tables)
			if len(shared.tables) > 0 && !yield(shared) {
				return
			}
		}
	}
}

// partitions returns the number of partitions of all tables in a provision.
func (p *provision) partitions(m *topology.Snapshot) (n int) {
	for _, t := range p.tables {
		n += len(m.Partitions(t))
	}
	return n
}

// DividePerPartition divides each throughput evenly among physical partitions. During a split, each side gets half of
// the partition's share. The shares of all other partitions change when the split has finished.
func DividePerPartition(s *meta.State) partition.Throughputs {
	out := partition.Throughputs{PerSecond: map[topology.PartitionID]int64{},
		Children: map[topology.PartitionID]topology.PartitionID{}}
	for v := range provisions(s) {
		n := int64(v.partitions(s.Topology))
		if n == 0 {
			continue
		}
		each := max(v.units/n, 1)
		for _, t := range v.tables {
			for _, p := range s.Topology.Partitions(t) {
				out.PerSecond[p.ID] = each
				if p.Split != nil {
					out.PerSecond[p.Split.Child], out.Children[p.ID] = max(min(each, budget.MaxPerSecond)/2, 1),
						p.Split.Child
				}
			}
		}
	}
	return out
}

// SharedTables returns all tables that share the throughput of a table, including this table. It returns nil if the
// table has no throughput.
func SharedTables(s *meta.State, table uint32) []uint32 {
	for v := range provisions(s) {
		if slices.Contains(v.tables, table) {
			return v.tables
		}
	}
	return nil
}

// InitialPartitions returns the number of physical partitions for a new table, which is one for every 6,000 request
// units per second. If the table shares a keyspace's throughput, the partitions of the other tables are subtracted, and
// the result is at least 1. InitialPartitions returns 0 if the table has no throughput.
func InitialPartitions(s *meta.State, t *schema.Table) int {
	ks := s.Schema.Keyspace(t.Keyspace)
	if ks == nil {
		return 0
	}
	bound := ks.Throughput(t)
	n := divideUp(bound.Units, unitsPerInitialPartition)
	if bound.Shared {
		for _, other := range ks.Tables {
			if !other.Virtual && ks.Throughput(other).Shared {
				n -= len(s.Topology.Partitions(other.ID))
			}
		}
		n = max(n, 1)
	}
	return n
}

// divideUp returns units divided by size, rounded up.
func divideUp(units, size int64) int { return int((units + size - 1) / size) }

// Requirement is the total number of physical partitions that tables need for a shared throughput.
type Requirement struct {
	Tables []uint32
	// MinPartitions is the minimum number of partitions that can use the whole throughput, because a physical partition
	// serves up to budget.MaxPerSecond. InitialPartitions is the number of partitions with which the tables would be
	// created now.
	MinPartitions, InitialPartitions int
}

// Requirements returns the requirements of all throughputs.
func Requirements(s *meta.State) (out []Requirement) {
	for v := range provisions(s) {
		out = append(out, Requirement{v.tables, divideUp(v.units, budget.MaxPerSecond), divideUp(v.units,
			unitsPerInitialPartition)})
	}
	return out
}
