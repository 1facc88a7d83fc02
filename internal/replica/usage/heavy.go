// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// ways and setBits are the dimensions of the counter table. The table has 1 << setBits sets. The ring position of a
	// logical partition determines its set. The partition uses one way of this set.
	ways    = 8
	setBits = 6
	// notesMax is the maximum number of requests recorded per second. At higher rates, the sampling step is doubled.
	notesMax = 1 << 15
	// recentKeeps is the fraction of a partition's recent rate that remains after a second.
	recentKeeps = 0.6
	// namedShare is the divisor of a minute's units that yields the minimum units for storing the key of a read.
	// namedMax is the maximum number of stored keys. namedBytes is the maximum length of a stored key.
	namedShare = 256
	namedMax   = 32
	namedBytes = 1024
	// TopMax is the maximum number of logical partitions recorded for each minute.
	TopMax = 10
)

// counterTable uses the Space-Saving algorithm (Metwally, Agrawal, and El Abbadi, 2005) in each set. A partition
// without a counter takes over the lowest counter of the set, including the counter's value. Therefore, no counter is
// too low, and each counter has a known maximum error. Counters are reset every minute, but remain assigned to their
// logical partitions.
type counterTable struct {
	sets [1 << setBits]set
	// named maps ring positions to keys from reads.
	named map[uint64][]byte
	// noted is the number of requests recorded in this second. total is the number of units in this minute, and coarse
	// is the highest sampling step.
	noted  int
	total  int64
	coarse int64
}

// set is one set of the table. A position of 0 marks an unused way, because no key has the minimum token.
type set struct {
	place [ways]uint64
	// units is the number of counted units, which may be too high by up to over. before is the value of units at the
	// end of the last second. recent is the recent rate in units per second.
	units, over, before [ways]int64
	recent              [ways]float64
	named               [ways]bool
}

// HeavyPartition is a logical partition with a high load.
type HeavyPartition struct {
	Token token.Token `json:"token"`
	// Key is the partition key, or nil if no read has contained the key. Name is the readable name. Callers that know
	// the table set Name.
	Key  []byte `json:"-"`
	Name string `json:"name,omitempty"`
	// Units is the number of units in a minute. It may be too high by up to Over. If requests were sampled, the error
	// is less than Noise in 997 of 1,000 cases.
	Units ru.Units `json:"units"`
	Over  ru.Units `json:"over,omitempty"`
	Noise ru.Units `json:"noise,omitempty"`
	// PerSecond is the recent load in request units per second.
	PerSecond float64 `json:"per_second"`
}

// Top holds the logical partitions of a physical partition with the highest load. The units of any other logical
// partition do not exceed Floor or the units of a listed partition.
type Top struct {
	Keys  []HeavyPartition `json:"keys,omitempty"`
	Floor ru.Units         `json:"floor,omitempty"`
}

// note records the cost of a request for its logical partition if the request is sampled. total is the total cost of
// requests of the same kind, including this request. A request whose price is below the step is recorded with
// probability price/step, at the price of a whole step.
func (p *Partition) note(tok token.Token, key []byte, u ru.Units, total int64) {
	w := int64(u)
	if step := p.step.Load(); w < step {
		if hi, _ := bits.Mul64(mix64(uint64(total)), uint64(step)); hi >= uint64(w) {
			return
		}
		w = step
	}
	if w <= 0 {
		return
	}
	p.mu.Lock()
	if p.heavy == nil {
		p.heavy = new(counterTable)
	}
	t := p.heavy
	t.add(tok.Position(), key, w)
	t.coarse = max(t.coarse, p.step.Load())
	if t.noted++; t.noted%notesMax == 0 {
		p.step.Store(max(2*p.step.Load(), int64(ru.Unit)))
	}
	p.mu.Unlock()
}

// mix64 is the finalizer of splitmix64.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// add adds w to the counter of a ring position.
func (t *counterTable) add(place uint64, key []byte, w int64) {
	t.total += w
	s := &t.sets[place*0x9e3779b97f4a7c15>>(64-setBits)]
	for i := range s.place {
		if s.place[i] == place {
			s.units[i] += w
			if key != nil && !s.named[i] && s.units[i]-s.over[i] > t.total/namedShare {
				s.named[i] = t.name(place, key)
			}
			return
		}
	}
	least := 0
	for i := 1; i < ways; i++ {
		if s.units[i] < s.units[least] || s.units[i] == s.units[least] && s.recent[i] < s.recent[least] {
			least = i
		}
	}
	if s.named[least] {
		delete(t.named, s.place[least])
	}
	least64 := s.units[least]
	s.place[least], s.units[least], s.over[least], s.before[least] = place, least64+w, least64, least64
	s.recent[least], s.named[least] = 0, false
}

// name stores the key of a ring position.
func (t *counterTable) name(place uint64, key []byte) bool {
	if len(t.named) >= namedMax || len(key) > namedBytes {
		return false
	}
	if t.named == nil {
		t.named = make(map[uint64][]byte)
	}
	t.named[place] = bytes.Clone(key)
	return true
}

// endSecond updates the recent rates after the given number of seconds.
func (t *counterTable) endSecond(passed int64) {
	keep := math.Pow(recentKeeps, float64(passed))
	for i := range t.sets {
		s := &t.sets[i]
		for j := range s.place {
			pace := float64(s.units[j]-s.before[j]) / float64(passed)
			s.recent[j] = s.recent[j]*keep + pace*(1-keep)
			s.before[j] = s.units[j]
		}
	}
}

// endMinute resets the counters.
func (t *counterTable) endMinute(step int64) {
	for i := range t.sets {
		s := &t.sets[i]
		s.units, s.over, s.before = [ways]int64{}, [ways]int64{}, [ways]int64{}
	}
	t.total, t.coarse = 0, step
}

// top returns the first n partitions in the given order for which holds returns true.
func (t *counterTable) top(n int, holds func(token.Token) bool, order func(a, b *HeavyPartition) int) (out Top) {
	var floor int64
	all := make([]HeavyPartition, 0, ways<<setBits)
	for i := range t.sets {
		s := &t.sets[i]
		floor = max(floor, slices.Min(s.units[:]))
		for j, place := range s.place {
			if place == 0 || s.units[j] == 0 && s.recent[j] < float64(ru.Unit)/1000 {
				continue
			}
			tok := token.AtPosition(place)
			if holds != nil && !holds(tok) {
				continue
			}
			h := HeavyPartition{Token: tok, Units: ru.Units(s.units[j]), Over: ru.Units(s.over[j]),
				PerSecond: s.recent[j] / float64(ru.Unit)}
			if t.coarse > 0 {
				h.Noise = ru.Units(3 * math.Sqrt(float64(s.units[j])*float64(t.coarse)))
			}
			all = append(all, h)
		}
	}
	// This code sorts pointers, because comparing values would move the values to the heap.
	sorted := make([]*HeavyPartition, len(all))
	for i := range all {
		sorted[i] = &all[i]
	}
	slices.SortFunc(sorted, func(a, b *HeavyPartition) int {
		return cmp.Or(order(a, b),
			cmp.Compare(a.Token, b.Token))
	})
	out.Keys, out.Floor = make([]HeavyPartition, min(n, len(all))), ru.Units(floor)
	for i := range out.Keys {
		out.Keys[i] = *sorted[i]
		out.Keys[i].Key = t.named[out.Keys[i].Token.Position()]
	}
	return out
}

func byUnits(a, b *HeavyPartition) int { return cmp.Compare(b.Units, a.Units) }
func byRecent(a, b *HeavyPartition) int {
	return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), byUnits(a, b))
}
