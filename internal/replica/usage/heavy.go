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
	// ways and setBits are the shape of the table of counters: each logical partition belongs to one of 1 << setBits
	// sets, by its place on the ring, and takes one of the ways of that.
	ways    = 8
	setBits = 6
	// notesMax is how many requests a second are noted; where there are more the price doubles below which they are
	// sampled.
	notesMax = 1 << 15
	// recentKeeps is what is left after a second of how fast a logical partition was: half is forgotten in 1.4 s.
	recentKeeps = 0.6
	// namedPart is the part of the units of a minute from which on the key of a read is kept, namedMax how many are,
	// and namedBytes how long they may be.
	namedPart  = 256
	namedMax   = 32
	namedBytes = 1024
	// TopMost is how many logical partitions are kept of each minute.
	TopMost = 10
)

// table counts with the algorithm Space-Saving (Metwally, Agrawal and El Abbadi 2005) in each of its sets: what has no
// counter takes the lowest of its set, and begins with what that has. So no counter is too low, and each knows by how
// much it may be too high. Counters are set to zero every minute, and stay with their logical partitions, so what is
// hot for longer is counted from the first request of a minute on.
type table struct {
	sets [1 << setBits]set
	// named are keys that reads have named.
	named map[uint64][]byte
	// noted are the requests noted in this second; total and coarse are the units of this minute and the highest step.
	noted  int
	total  int64
	coarse int64
}

// set is a part of the table. A place of 0 is none: no key has the least token.
type set struct {
	place [ways]uint64
	// units may be too high by over; before is what they were at the last second, and recent the units a second of
	// the last ones.
	units, over, before [ways]int64
	recent              [ways]float64
	named               [ways]bool
}

// Heavy is a logical partition that takes much.
type Heavy struct {
	Token token.Token `json:"token"`
	// Key is nil if no read has named it. Name is it in words, which whoever knows its table fills in.
	Key  []byte `json:"-"`
	Name string `json:"name,omitempty"`
	// Units are those of a minute, too high by Over at most. Where requests were sampled they are within Noise of that
	// in 997 of 1,000 cases.
	Units ru.Units `json:"units"`
	Over  ru.Units `json:"over,omitempty"`
	Noise ru.Units `json:"noise,omitempty"`
	// PerSecond is how much it takes a second, in request units: mostly that of the last three seconds.
	PerSecond float64 `json:"per_second"`
}

// Top are the logical partitions of a physical one that take most. What is not among them has Floor at most, or less
// than those that are.
type Top struct {
	Keys  []Heavy  `json:"keys,omitempty"`
	Floor ru.Units `json:"floor,omitempty"`
}

// note counts what a request has cost for its logical partition, if it is its turn; total is what requests of its kind
// have cost, with this one. A request of less than a step is noted with a probability of price/step, for a whole step.
func (p *Partition) note(tok token.Token, key []byte, u ru.Units, total int64) {
	w := int64(u)
	if step := p.step.Load(); w < step {
		if hi, _ := bits.Mul64(scatter(uint64(total)), uint64(step)); hi >= uint64(w) {
			return
		}
		w = step
	}
	if w <= 0 {
		return
	}
	p.mu.Lock()
	if p.heavy == nil {
		p.heavy = new(table)
	}
	t := p.heavy
	t.add(tok.Position(), key, w)
	t.coarse = max(t.coarse, p.step.Load())
	if t.noted++; t.noted%notesMax == 0 {
		p.step.Store(max(2*p.step.Load(), int64(ru.Unit)))
	}
	p.mu.Unlock()
}

// scatter is the finalizer of splitmix64.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// add adds to the counter of a place.
func (t *table) add(place uint64, key []byte, w int64) {
	t.total += w
	s := &t.sets[place*0x9e3779b97f4a7c15>>(64-setBits)]
	for i := range s.place {
		if s.place[i] == place {
			s.units[i] += w
			if key != nil && !s.named[i] && s.units[i]-s.over[i] > t.total/namedPart {
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

// name keeps the key of a place.
func (t *table) name(place uint64, key []byte) bool {
	if len(t.named) >= namedMax || len(key) > namedBytes {
		return false
	}
	if t.named == nil {
		t.named = make(map[uint64][]byte)
	}
	t.named[place] = bytes.Clone(key)
	return true
}

// second notes that some seconds have passed.
func (t *table) second(passed int64) {
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

// minute begins to count anew.
func (t *table) minute(step int64) {
	for i := range t.sets {
		s := &t.sets[i]
		s.units, s.over, s.before = [ways]int64{}, [ways]int64{}, [ways]int64{}
	}
	t.total, t.coarse = 0, step
}

// top are the n first by an order, of those that holds is true for.
func (t *table) top(n int, holds func(token.Token) bool, order func(a, b *Heavy) int) (out Top) {
	var floor int64
	all := make([]Heavy, 0, ways<<setBits)
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
			h := Heavy{Token: tok, Units: ru.Units(s.units[j]), Over: ru.Units(s.over[j]),
				PerSecond: s.recent[j] / float64(ru.Unit)}
			if t.coarse > 0 {
				h.Noise = ru.Units(3 * math.Sqrt(float64(s.units[j])*float64(t.coarse)))
			}
			all = append(all, h)
		}
	}
	sorted := make([]*Heavy, len(all)) // of values each comparison would put both on the heap
	for i := range all {
		sorted[i] = &all[i]
	}
	slices.SortFunc(sorted, func(a, b *Heavy) int { return cmp.Or(order(a, b), cmp.Compare(a.Token, b.Token)) })
	out.Keys, out.Floor = make([]Heavy, min(n, len(all))), ru.Units(floor)
	for i := range out.Keys {
		out.Keys[i] = *sorted[i]
		out.Keys[i].Key = t.named[out.Keys[i].Token.Position()]
	}
	return out
}

func byUnits(a, b *Heavy) int { return cmp.Compare(b.Units, a.Units) }
func byRecent(a, b *Heavy) int {
	return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), byUnits(a, b))
}
