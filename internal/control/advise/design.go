// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// targetBytes and targetValues are the maximum size and the maximum number of values of the largest proposed logical
// partition. They are well below the limits for findings.
const (
	targetBytes  = 8e6
	targetValues = 80_000
	// bucketsMax is the maximum number of buckets of a key. A read of the whole key must read one partition per bucket.
	bucketsMax = 1024
)

// unit is a unit of time that divides keys.
type unit struct {
	name string
	typ  cqltype.Kind
	of   func(t time.Time) int64
	span time.Duration
}

// units holds the units of time, from the longest to the shortest.
var units = []unit{
	{"month", cqltype.Date, monthOf, 30 * 24 * time.Hour},
	{"day", cqltype.Date, func(t time.Time) int64 { return floor(t, 24*time.Hour) }, 24 * time.Hour},
	{"hour", cqltype.Timestamp, func(t time.Time) int64 { return floor(t, time.Hour) }, time.Hour},
	{"minute", cqltype.Timestamp, func(t time.Time) int64 { return floor(t, time.Minute) }, time.Minute},
}

func monthOf(t time.Time) int64 { return int64(t.Year()*12) + int64(t.Month()) }

func floor(t time.Time, d time.Duration) int64 {
	s, n := t.Unix(), int64(d/time.Second)
	if s < 0 {
		return (s - n + 1) / n
	}
	return s / n
}

// design is an alternative key of a table. The partition key of a design has one more component.
type design struct {
	table *schema.Table
	// If unit is set, the design divides partitions by the time in the clustering column column. If buckets is set, it
	// divides partitions by a hash of the clustering key. Otherwise, the first clustering column becomes part of the
	// partition key.
	unit    *unit
	column  int
	buckets int
}

// part returns the partition of the new key that contains a row of an old partition.
func (d *design) part(clustering []byte) uint64 {
	switch {
	case d.unit != nil:
		at, ok := clusteringInstant(d.table, clustering, d.column)
		if !ok {
			return 0
		}
		return uint64(d.unit.of(at))
	case d.buckets > 0:
		return hashOf(clustering) % uint64(d.buckets)
	}
	return hashOf(clusteringPrefix(d.table, clustering, 1))
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// part is the expected size of a logical partition of a new key.
type part struct {
	Size
	// sampled is the number of sampled rows in the partition.
	sampled int
}

// outcome is the effect of a design on the sample.
type outcome struct {
	design
	largest part
	// exact reports whether largest is exact.
	exact bool
	// parts is the total number of logical partitions. ofLargest is the number of partitions into which the largest
	// partition is divided.
	parts, ofLargest float64
	// full is the number of bytes that the fastest-growing partition receives per unit of time. It is 0 if this number
	// is unknown.
	full float64
	// newest is the new partition that contains the newest rows of the current largest partition.
	newest part
}

// simulate applies a design to the logical partitions of a sample.
func simulate(d design, p *population) outcome {
	o := outcome{design: d, exact: p.complete}
	for i := range p.members {
		m := &p.members[i]
		divided, newest := d.divide(m.SampledPartition)
		o.parts += m.weight * float64(len(divided))
		if i == 0 {
			o.ofLargest, o.newest = float64(len(divided)), newest
			if s := d.spanned(m.SampledPartition); s > o.ofLargest {
				o.parts += m.weight * (s - o.ofLargest)
				o.ofLargest = s
			}
		}
		for _, x := range divided {
			if x.Bytes > o.largest.Bytes {
				o.largest = x
				o.exact = p.complete && float64(len(m.Kept)) >= m.Rows
			}
		}
	}
	return o
}

// divide returns the parts of a logical partition. newest is the part with the newest rows.
func (d *design) divide(p *storage.SampledPartition) (all []part, newest part) {
	if len(p.Kept) == 0 {
		whole := part{Size: Size{p.Rows, p.Values, p.Bytes}}
		return []part{whole}, whole
	}
	parts := map[uint64]part{}
	var last uint64
	for i := range p.Kept {
		r := &p.Kept[i]
		id := d.part(r.Clustering)
		x := parts[id]
		x.Rows += r.Weight
		x.Values += r.Weight * float64(r.Values)
		x.Bytes += r.Weight * float64(r.Bytes)
		x.sampled++
		parts[id] = x
		if i == 0 || d.unit != nil && int64(id) > int64(last) {
			last = id
		}
	}
	for id, x := range parts {
		// Sampled rows may differ from the mean of the partition, so the sizes are scaled to add up to the measured
		// size.
		x.Bytes += float64(p.StaticBytes)
		parts[id] = x
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Rows, a.Rows), cmp.Compare(b.Values, a.Values))
	})
	return all, parts[last]
}

// spanned returns the number of units of time that a partition covers, including units that the sample may lack.
func (d *design) spanned(p *storage.SampledPartition) float64 {
	if d.unit == nil || len(p.Kept) == 0 || p.Rows <= float64(len(p.Kept)) {
		return 0
	}
	a, b := int64(d.part(p.Kept[0].Clustering)), int64(d.part(p.Kept[len(p.Kept)-1].Clustering))
	return min(math.Abs(float64(b-a))+1, p.Rows)
}

// offBy returns the possible error of the new largest partition's size in percent. It is two standard deviations of a
// count.
func (o *outcome) offBy() float64 {
	if o.exact || o.largest.sampled == 0 {
		return 0
	}
	return 200 / math.Sqrt(float64(o.largest.sampled))
}

// fits reports whether the largest partition will remain well within the limits.
func (o *outcome) fits() bool {
	return max(o.largest.Bytes, o.full) <= targetBytes && o.largest.Values <= targetValues
}

// name returns the name of the new component of the partition key.
func (d *design) name() string {
	switch {
	case d.unit != nil:
		return free(d.table, d.table.Clustering[d.column].Name+"_"+d.unit.name)
	case d.buckets > 0:
		return free(d.table, "bucket")
	}
	return d.table.Clustering[0].Name
}

// free returns a column name that the table does not use.
func free(t *schema.Table, name string) string {
	for i := 2; t.ByName[name] != nil; i++ {
		name = fmt.Sprint(name, "_", i)
	}
	return name
}

// candidates returns the designs that may divide the partitions of a table, starting with the best design. Divisions by
// time come first, because they limit growth. Divisions by a clustering column and by a hash follow. perDay is the
// growth of the fastest-growing partition in bytes per day. keysMin is the required number of logical partitions.
func candidates(t *schema.Table, p *population, perDay, keysMin float64) []outcome {
	var out []outcome
	if len(t.Clustering) == 0 || len(p.members) == 0 {
		return nil
	}
	if c, i := timeColumn(t); c != nil {
		var by outcome
		for j := range units {
			by = simulate(design{table: t, unit: &units[j], column: i}, p)
			by.full = perDay * units[j].span.Hours() / 24
			if by.fits() {
				break
			}
		}
		out = append(out, by)
	}
	if !isTime(t.Clustering[0]) && len(t.Clustering) > 1 {
		out = append(out, simulate(design{table: t}, p))
	}
	return append(out, simulate(design{table: t, buckets: bucketsFor(p, keysMin)}, p))
}

// bucketsFor returns the number of buckets for the largest partition, which is a power of two.
func bucketsFor(p *population, keysMin float64) int {
	s, n := p.members[0].size(), 2.0
	for n < bucketsMax && (s.Bytes/n > targetBytes*0.8 || s.Values/n > targetValues*0.8 || p.count*n < keysMin) {
		n *= 2
	}
	return int(n)
}

// choose returns the first candidate that fits or, if no candidate fits, the candidate with the smallest partitions. ok
// is false if no candidate makes the largest partition smaller.
func choose(list []outcome, now Size) (best outcome, others []outcome, ok bool) {
	at := slices.IndexFunc(list, func(o outcome) bool { return o.fits() })
	if at < 0 {
		for i := range list {
			if at < 0 || list[i].largest.Bytes < list[at].largest.Bytes {
				at = i
			}
		}
	}
	if at < 0 || list[at].largest.Bytes >= now.Bytes {
		return best, nil, false
	}
	return list[at], slices.Delete(slices.Clone(list), at, at+1), true
}

// costs returns the costs of reading all rows and of reading someRows rows of the largest partition.
func (o *outcome) costs(now Size, rowBytes float64, physical int) (all, some cost) {
	each := now.Rows / max(o.ofLargest, 1)
	all = cost{logical: o.ofLargest, physical: min(o.ofLargest, float64(physical))}
	all.units = o.ofLargest * readPart(each, now.Bytes/max(o.ofLargest, 1))
	asked := min(float64(someRows), now.Rows)
	switch {
	case o.buckets > 0: // each bucket may contain all of these rows
		some = cost{logical: o.ofLargest, physical: all.physical}
		some.units = o.ofLargest * readPart(min(asked, each), min(asked, each)*rowBytes)
	default:
		n := max(math.Ceil(asked/max(o.newest.Rows, 1)), 1)
		n = min(n, max(o.ofLargest, 1))
		some = cost{logical: n, physical: min(n, float64(physical)), units: n * readPart(asked/n, asked/n*rowBytes)}
	}
	return all, some
}
