// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// A search initially keeps candidatesFirst candidates plus the number of requested rows. If the candidates do not
// suffice, the search multiplies this number by candidatesGrowth, up to candidatesMax.
const (
	candidatesFirst  = 54
	candidatesGrowth = 8
	candidatesMax    = 1 << 16
)

// nearestMax limits the number of requested rows for which a search plans.
const nearestMax = 1000

// annRead reads the rows whose vectors are near to a given vector.
type annRead struct {
	*entryWalk
	it     *pebble.Iterator
	index  uint32
	search *vector.Search
	// begin and last are the first and last positions of the ring range.
	begin, last uint64
	*candidates
	// most is the maximum number of candidates. The search collects only candidates that are ordered after behind,
	// whose position is behindPlace. more reports whether candidates were dropped. Every dropped candidate is ordered
	// after all kept candidates or has a bound below least.
	most        int
	behind      *candidate
	behindPlace []byte
	more        bool
	least       float32
	// best holds the highest bounds of all entries in descending order, with one bound for each requested row.
	best   []float32
	wanted int
	stamp  uint64
	// code is the hash of the current entry's code.
	code uint64
	// vector, hits, wire, and fresh are scratch buffers. fresh is the list that is being packed.
	vector       []float32
	hits         []vector.Hit
	wire         []byte
	fresh        pack
	lower, upper []byte
}

// candidates is a heap of candidates, nearest first. places contains the positions of their rows.
type candidates struct {
	list   []candidate
	places []byte
}

var candidatePool = sync.Pool{New: func() any { return new(candidates) }}

// candidatesKept is the number of candidates for which a pooled read retains memory.
const candidatesKept = 1 << 15

// candidate is the row of an index entry, with an upper bound for the row's similarity.
type candidate struct {
	bound     float32
	from, end uint32 // position of the row
	code      uint64 // hash of the code
}

var codeSeed = maphash.MakeSeed()

// at returns the row position of a candidate.
func (l *candidates) at(a *candidate) []byte { return l.places[a.from:a.end] }

// compare orders candidates by their bounds in descending order.
func (l *candidates) compare(a, b *candidate) int { return compareCandidates(a, b, l.at(a), l.at(b)) }

func compareCandidates(a, b *candidate, atA, atB []byte) int {
	switch {
	case a.bound > b.bound:
		return -1
	case a.bound < b.bound:
		return 1
	}
	return cmp.Or(bytes.Compare(atA, atB), cmp.Compare(a.code, b.code))
}

// readANN reads the rows nearest to a vector.
func (rd indexRead) readANN() error {
	w := &entryWalk{rd: rd}
	defer w.close()
	n := &annRead{entryWalk: w, index: rd.r.Index.Index, begin: rd.r.Range.Begin, last: rd.r.Range.Limit - 1,
		candidates: candidatePool.Get().(*candidates), wanted: min(max(1, rd.r.Index.Nearest), nearestMax)}
	defer func() {
		if cap(n.list) <= candidatesKept {
			candidatePool.Put(n.candidates)
		}
	}()
	column, lists := rd.lists()
	if lists == nil || len(rd.r.Index.Vector) != 4*lists.Dimension {
		return &refusal{ErrNoIndex}
	}
	n.search = lists.NewSearch(vector.ReadVector(nil, rd.r.Index.Vector))
	n.stamp = rd.s.ann.now() // the stamp must be read before the iterator is created
	bounds := keys.AppendTable(nil, n.index|keys.IndexSpace)
	var err error
	if n.it, err = w.iterator(bounds, keys.After(bytes.Clone(bounds))); err != nil {
		return err
	}
	if err := rd.openTable(); err != nil {
		return err
	}
	rd.found = func() bool {
		cell := rd.row.Cell(column)
		if cell == nil {
			return false
		}
		n.vector = vector.ReadVector(n.vector[:0], cell.Value)
		return len(n.vector) == lists.Dimension && maphash.Bytes(codeSeed, n.search.CodeOf(n.vector)) == n.code
	}
	for {
		next := n.search.Next()
		if len(next) == 0 {
			return nil
		}
		if step, err := n.round(next); err != nil || step != command.More {
			return err
		}
	}
}

// lists returns the vector lists that a search names.
func (rd indexRead) lists() (column uint32, lists *vector.Lists) {
	in := rd.t.installed.Load()
	if in == nil || rd.r.Index.Index&keys.OrderedIndex == 0 {
		return 0, nil
	}
	for i := range in.Indexes {
		for _, l := range in.Indexes[i].Lists {
			if in.Indexes[i].ID == rd.r.Index.Index && l.Generation == rd.r.Index.Generation {
				return in.Indexes[i].Column, l
			}
		}
	}
	return 0, nil
}

// round visits the rows of the entries in some lists. If all lists except the first are too far away, round visits only
// the rows of the first list.
func (n *annRead) round(next []int) (command.Step, error) {
	n.behind, n.most = nil, candidatesFirst+n.wanted
	for again := false; ; again = true {
		n.list, n.places, n.more, n.least = n.list[:0], n.places[:0], false, float32(math.Inf(-1))
		for i, list := range next {
			if !again && n.search.TooFar(i, n.reached()) {
				next = next[:i]
				break
			}
			if err := n.collect(list); err != nil {
				return command.Stop, err
			}
		}
		if !again {
			n.search.MarkSearched(len(next))
		}
		if n.more {
			n.prune() // later candidates may come after dropped candidates
		}
		for i := len(n.list)/2 - 1; i >= 0; i-- {
			n.sink(i)
		}
		if step, err := n.reportProgress(); err != nil || step == command.Stop {
			return step, err
		}
		for len(n.list) > 0 {
			h := n.pop()
			if step, err := n.visitCandidate(&h); err != nil || step == command.Stop || step == command.Enough {
				return step, err
			}
			if n.more && len(n.list) == 0 {
				n.behindPlace = append(n.behindPlace[:0], n.at(&h)...)
				n.behind = &h
			}
		}
		if !n.more {
			return command.More, nil
		}
		n.most = min(candidatesMax, candidatesGrowth*n.most)
	}
}

// reached returns the lowest bound in best, or 0 if the search has found fewer entries than requested rows.
func (n *annRead) reached() float32 {
	if len(n.best) < n.wanted {
		return 0
	}
	return n.best[n.wanted-1]
}

// reportProgress reports the number of examined entries, which determines the charge of the read.
func (n *annRead) reportProgress() (command.Step, error) {
	looked := n.rd.visited - n.rd.silent
	n.rd.silent = n.rd.visited
	return refused(command.Passed(n.rd.v, token.AtPosition(n.begin), []byte{}, looked))
}

// collect adds the candidates of a list.
func (n *annRead) collect(list int) error {
	s := n.search.EntryRange(list, n.begin, n.last)
	p, err := n.packed(packKey{n.index, [packHead]byte(s.From)})
	if err != nil {
		return err
	}
	if p != nil && !p.large {
		n.unpack(p)
		return n.rd.ctx.Err()
	}
	return n.walk(s.From, s.Limit, func(value, place []byte) (bool, error) {
		if n.rd.visited++; n.inRange(place) {
			n.addCandidate(n.search.Bound(value), n.search.Code(value), place)
		}
		return true, n.rd.tick()
	})
}

// walk calls fn for each entry between two values until fn returns false.
func (n *annRead) walk(from, limit []byte, fn func(value, place []byte) (bool, error)) error {
	n.lower = keys.AppendIndexFrom(n.lower[:0], n.index, from)
	n.upper = keys.AppendIndexFrom(n.upper[:0], n.index, limit)
	for valid := n.it.SeekGE(n.lower); valid; valid = n.it.Next() {
		key := n.it.Key()
		if bytes.Compare(key, n.upper) >= 0 {
			break
		}
		value, place, ok := keys.SplitOrdered(key)
		if !ok || !n.search.Of(value) || len(place) < 8 {
			return fmt.Errorf("index entry %x: %w", key, errDamage)
		}
		if more, err := fn(value, place); err != nil || !more {
			return err
		}
	}
	return n.it.Error()
}

// packSpan is the minimum width of the ring range for which a read packs lists. Packing reads a whole list, but a
// narrow range needs only a small part of the list.
const packSpan = 1 << 56

// packed returns a list in packed form, or nil if packing it is not worthwhile.
func (n *annRead) packed(k packKey) (*pack, error) {
	rd := n.rd
	if p := rd.s.ann.get(k); p != nil || rd.s.ann.most <= 0 || n.last-n.begin < packSpan {
		return p, nil
	}
	p := &n.fresh
	p.key, p.stamp, p.large, p.places, p.ends = k, n.stamp, false, p.places[:0], p.ends[:0]
	p.codes.Reset()
	limit := append(k.head[:packHead:packHead], 0xff, 0xff, 0xff) // no code starts with 0xff
	err := n.walk(k.head[:], limit, func(value, place []byte) (bool, error) {
		if p.codes.Len() == packMax {
			p.large = true
			return false, nil
		}
		p.codes.Add(value)
		p.places = append(p.places, place...)
		p.ends = append(p.ends, uint32(len(p.places)))
		if len(p.ends)%contextEvery == 0 {
			return true, rd.ctx.Err()
		}
		return true, nil
	})
	if err == nil {
		p = p.clone()
		rd.s.ann.put(p)
	}
	return p, err
}

// unpack adds the candidates of a packed list.
func (n *annRead) unpack(p *pack) {
	first, limit := p.ringRange(n.begin, n.last)
	n.rd.visited += limit - first
	n.hits = n.search.Hits(n.hits[:0], &p.codes, first, limit, n.least)
	n.more = n.more || len(n.hits) < limit-first
	for i := range n.hits {
		h := &n.hits[i]
		if place := p.place(h.At); n.inRange(place) {
			n.wire = p.codes.AppendCode(n.wire[:0], h.At)
			n.addCandidate(h.Bound, n.wire, place)
		}
	}
}

func (n *annRead) inRange(place []byte) bool {
	ring := keys.RingOf(place)
	return ring >= n.begin && ring <= n.last
}

// addCandidate adds the row at a position to the candidates. bound and code belong to the row's entry.
func (n *annRead) addCandidate(bound float32, code, place []byte) {
	if bound < n.least {
		n.more = true
		return
	}
	at, _ := slices.BinarySearchFunc(n.best, bound, func(a, b float32) int { return cmp.Compare(b, a) })
	if at < n.wanted {
		n.best = slices.Insert(n.best[:min(len(n.best), n.wanted-1)], at, bound)
	}
	h := candidate{bound: bound, code: maphash.Bytes(codeSeed, code)}
	if n.behind != nil && compareCandidates(&h, n.behind, place, n.behindPlace) <= 0 {
		return
	}
	h.from = uint32(len(n.places))
	n.places = append(n.places, place...)
	h.end = uint32(len(n.places))
	if n.list = append(n.list, h); len(n.list) >= 2*n.most {
		n.prune()
	}
}

// prune drops the furthest candidates.
func (n *annRead) prune() {
	slices.SortFunc(n.list, func(a, b candidate) int { return n.compare(&a, &b) })
	n.list, n.more = n.list[:min(n.most, len(n.list))], true
	n.least = n.list[len(n.list)-1].bound
	old := n.places
	n.places = make([]byte, 0, cap(old))
	for i := range n.list {
		l := &n.list[i]
		at := old[l.from:l.end]
		l.from = uint32(len(n.places))
		n.places = append(n.places, at...)
		l.end = uint32(len(n.places))
	}
}

// pop removes and returns the candidate with the highest bound.
func (l *candidates) pop() candidate {
	h := l.list[0]
	last := len(l.list) - 1
	l.list[0] = l.list[last]
	l.list = l.list[:last]
	l.sink(0)
	return h
}

func (l *candidates) sink(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(l.list); c++ {
			if l.compare(&l.list[c], &l.list[least]) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		l.list[i], l.list[least] = l.list[least], l.list[i]
		i = least
	}
}

// visitCandidate visits the row of a candidate if the row has the vector of the candidate's entry. Before each row, the
// visitor receives the row's partition.
func (n *annRead) visitCandidate(h *candidate) (command.Step, error) {
	rd := n.rd
	n.part, n.code = 0, h.code
	clustering, err := n.enter(n.at(h))
	if err != nil || !rd.wanted(clustering) {
		return command.More, err
	}
	rd.resume = false
	return rd.fetch(clustering)
}
