// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Size is the size of a logical partition. Bytes is the size of keys and values before compression.
type Size struct {
	Rows   float64 `json:"rows"`
	Values float64 `json:"values"`
	Bytes  float64 `json:"bytes"`
}

// member is a sampled logical partition. weight is the number of logical partitions that it represents.
type member struct {
	*storage.SampledPartition
	weight float64
}

// population is the sample of a table, starting with the largest partition.
type population struct {
	members []member
	// complete reports whether the sample is the whole table.
	complete bool
	// count is the number of logical partitions. rows and bytes are the totals of all logical partitions.
	count, rows, bytes float64
}

func sortBySize(list []*storage.SampledPartition) {
	slices.SortStableFunc(list, func(a, b *storage.SampledPartition) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Token, b.Token))
	})
}

// populationOf computes the weights of the partitions in all samples.
func populationOf(in *Input) *population {
	p := &population{complete: len(in.Samples) >= in.Physical}
	for i := range in.Samples {
		s := &in.Samples[i]
		p.complete = p.complete && s.Complete
		if s.Complete {
			for j := range s.Partitions {
				p.members = append(p.members, member{&s.Partitions[j], 1})
			}
			continue
		}
		p.members = append(p.members, weighed(s)...)
	}
	slices.SortStableFunc(p.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Token, b.Token))
	})
	for _, m := range p.members {
		p.count += m.weight
		p.rows += m.weight * m.Rows
		p.bytes += m.weight * m.Bytes
	}
	return p
}

// heavyRounds is the number of iterations for estimating the size above which the sample contains all partitions.
const heavyRounds = 3

// weighed returns the partitions of an incomplete sample with their weights. The sample contains every partition that
// exceeds a fraction of the total size, so these partitions have weight 1. The randomly selected partitions represent
// all other partitions.
func weighed(s *Sample) []member {
	drawn := 0
	var bytes float64
	for i := range s.Partitions {
		if p := &s.Partitions[i]; !p.Heavy {
			drawn++
			bytes += p.Bytes
		}
	}
	if drawn == 0 {
		return nil
	}
	total := max(s.Logical, float64(len(s.Partitions)))
	whole := bytes / float64(drawn) * total
	var out []member
	for range heavyRounds {
		found := 2 * whole / float64(max(s.HeavySpots, 1))
		var large, small []member
		whole = 0
		bytes = 0
		for i := range s.Partitions {
			p := &s.Partitions[i]
			switch {
			case p.Bytes >= found:
				large = append(large, member{p, 1})
				whole += p.Bytes
			case !p.Heavy:
				small = append(small, member{p, 0})
				bytes += p.Bytes
			}
		}
		if len(small) > 0 {
			each := max(total-float64(len(large)), float64(len(small))) / float64(len(small))
			for i := range small {
				small[i].weight = each
			}
			whole += bytes * each
		}
		out = append(large, small...)
	}
	return out
}

// size returns the size of a member.
func (m *member) size() Size { return Size{m.Rows, m.Values, m.Bytes} }

// above estimates the number of logical partitions that exceed a number of bytes or values.
func (p *population) above(bytes, values float64) (n float64) {
	for _, m := range p.members {
		if bytes > 0 && m.Bytes > bytes || values > 0 && m.Values > values {
			n += m.weight
		}
	}
	return n
}

// quantile returns the size in bytes that a fraction of the logical partitions do not exceed.
func (p *population) quantile(part float64) float64 {
	left := (1 - part) * p.count
	for _, m := range p.members {
		if left -= m.weight; left < 0 {
			return m.Bytes
		}
	}
	if n := len(p.members); n > 0 {
		return p.members[n-1].Bytes
	}
	return 0
}

// mean returns the mean size of a logical partition in bytes.
func (p *population) mean() float64 { return p.bytes / max(p.count, 1) }

// rowBytes returns the mean size of a row.
func (p *population) rowBytes() float64 { return p.bytes / max(p.rows, 1) }

// keptRows returns the number of sampled rows.
func (p *population) keptRows() (n int) {
	for _, m := range p.members {
		n += len(m.Kept)
	}
	return n
}
