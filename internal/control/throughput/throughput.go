// SPDX-License-Identifier: Apache-2.0

// Package throughput says what the throughputs of tables and keyspaces mean for physical partitions: how much each may
// take, how many there have to be, and which are to be split for it. It is pure, over the records.
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

// atFirst is for how much of a throughput, in request units a second, a table is created with a physical partition.
const atFirst = 6_000

// provision is a throughput, in request units a second, and the tables that have it for themselves or share it.
type provision struct {
	units  int64
	tables []uint32
}

// provisions are all throughputs of a state.
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

// partitions counts the partitions of all tables of a provision.
func (p *provision) partitions(m *topology.Snapshot) (n int) {
	for _, t := range p.tables {
		n += len(m.Partitions(t))
	}
	return n
}

// Divide divides what tables and keyspaces may take evenly over their physical partitions. What a split that is under
// way makes of one has half of it each: until that is in the map the others keep what they have.
func Divide(s *meta.State) partition.Throughputs {
	out := partition.Throughputs{PerSecond: map[topology.PartitionID]int64{},
		Children: map[topology.PartitionID]topology.PartitionID{}}
	for v := range provisions(s) {
		n := int64(v.partitions(s.Map))
		if n == 0 {
			continue
		}
		each := max(v.units/n, 1)
		for _, t := range v.tables {
			for _, p := range s.Map.Partitions(t) {
				out.PerSecond[p.ID] = each
				if p.Cut != nil {
					out.PerSecond[p.Cut.Child], out.Children[p.ID] = max(min(each, budget.MaxPerSecond)/2, 1),
						p.Cut.Child
				}
			}
		}
	}
	return out
}

// Sharers are the tables that share the throughput of a table, itself among them; none if it has no throughput.
func Sharers(s *meta.State, table uint32) []uint32 {
	for v := range provisions(s) {
		if slices.Contains(v.tables, table) {
			return v.tables
		}
	}
	return nil
}

// AtFirst is into how many physical partitions a new table is cut for its throughput: one for each 6,000 request units
// a second. A table that shares the throughput of its keyspace gets as many as the others leave, at least one. It is 0
// for a table without a throughput.
func AtFirst(s *meta.State, t *schema.Table) int {
	ks := s.Schema.Keyspace(t.Keyspace)
	if ks == nil {
		return 0
	}
	bound := ks.Throughput(t)
	n := partsOf(bound.Units, atFirst)
	if bound.Shared {
		for _, other := range ks.Tables {
			if !other.Virtual && ks.Throughput(other).Shared {
				n -= len(s.Map.Partitions(other.ID))
			}
		}
		n = max(n, 1)
	}
	return n
}

// partsOf is how many parts of a size there are in a throughput, rounded up.
func partsOf(units, size int64) int { return int((units + size - 1) / size) }

// Need is how many physical partitions some tables are to have, all together, for the throughput that they share.
type Need struct {
	Tables []uint32
	// Least is without how many the throughput cannot be spent: a physical partition takes budget.MaxPerSecond at most.
	// First is how many they would be made with now.
	Least, First int
}

// Needs are those of all throughputs.
func Needs(s *meta.State) (out []Need) {
	for v := range provisions(s) {
		out = append(out, Need{v.tables, partsOf(v.units, budget.MaxPerSecond), partsOf(v.units, atFirst)})
	}
	return out
}
