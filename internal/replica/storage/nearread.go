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

// How many places are held at once that entries of vectors lead to: leadsFirst and those that are wanted at first, and
// leadsGrowth times as many whenever those were not enough, up to leadsMax.
const (
	leadsFirst  = 54
	leadsGrowth = 8
	leadsMax    = 1 << 16
)

// nearestMax is how many rows, at most, are taken for wanted.
const nearestMax = 1000

// nearRead reads the rows whose vectors are near to another.
type nearRead struct {
	*entryWalk
	it     *pebble.Iterator
	index  uint32
	search *vector.Search
	// begin and last are the ends of the range of the ring that is read, both included.
	begin, last uint64
	*leads
	// most is how many leads are held. behind is the lead after which those come that are wanted, and behindPlace its
	// place; more says that some were left out for the room they take, all of which come after those that are held, or
	// have a bound below least.
	most        int
	behind      *lead
	behindPlace []byte
	more        bool
	least       float32
	// best are the highest bounds of all entries, as many as rows are wanted, the highest first.
	best   []float32
	wanted int
	// stamp is that of what is read of entries.
	stamp uint64
	// code is the hash of the code of the entry at hand.
	code uint64
	// vector, hits and wire are scratch, and so is fresh, the list that is being packed.
	vector       []float32
	hits         []vector.Hit
	wire         []byte
	fresh        pack
	lower, upper []byte
}

// leads are where the entries of some lists lead to: a heap with the nearest in front. places has their places.
type leads struct {
	list   []lead
	places []byte
}

var leadPool = sync.Pool{New: func() any { return new(leads) }}

// leadKept is for how many leads the room is kept.
const leadKept = 1 << 15

// lead is where an entry leads to, and how near what is there may be.
type lead struct {
	bound     float32
	from, end uint32 // of the place of the row
	code      uint64 // the hash of the code
}

var codeSeed = maphash.MakeSeed()

// at is where the row of a lead stands.
func (l *leads) at(a *lead) []byte { return l.places[a.from:a.end] }

// compare orders leads, those first that may lead to what is nearer.
func (l *leads) compare(a, b *lead) int { return compareLeads(a, b, l.at(a), l.at(b)) }

func compareLeads(a, b *lead, atA, atB []byte) int {
	switch {
	case a.bound > b.bound:
		return -1
	case a.bound < b.bound:
		return 1
	}
	return cmp.Or(bytes.Compare(atA, atB), cmp.Compare(a.code, b.code))
}

// readNear reads the rows that are near to a vector.
func (rd *reader) readNear() error {
	w := &entryWalk{rd: rd}
	defer w.close()
	n := &nearRead{entryWalk: w, index: rd.r.Index.Index, begin: rd.r.Range.Begin, last: rd.r.Range.Limit - 1,
		leads: leadPool.Get().(*leads), wanted: min(max(1, rd.r.Index.Nearest), nearestMax)}
	defer func() {
		if cap(n.list) <= leadKept {
			leadPool.Put(n.leads)
		}
	}()
	column, lists := rd.lists()
	if lists == nil || len(rd.r.Index.Near) != 4*lists.Dimension {
		return &refusal{ErrNoIndex}
	}
	n.search = lists.NewSearch(vector.ReadVector(nil, rd.r.Index.Near))
	n.stamp = rd.s.near.now() // before what is read by it is opened
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

// lists finds the lists that a search names.
func (rd *reader) lists() (column uint32, lists *vector.Lists) {
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

// round visits the rows that entries of some lists lead to, or of the first of them, if the others are too far.
func (n *nearRead) round(next []int) (command.Step, error) {
	n.behind, n.most = nil, leadsFirst+n.wanted
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
			n.prune() // what came since the last time may stand behind what was left out
		}
		for i := len(n.list)/2 - 1; i >= 0; i-- {
			n.sink(i)
		}
		if step, err := n.tell(); err != nil || step == command.Stop {
			return step, err
		}
		for len(n.list) > 0 {
			h := n.pop()
			if step, err := n.follow(&h); err != nil || step == command.Stop || step == command.Enough {
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
		n.most = min(leadsMax, leadsGrowth*n.most)
	}
}

// reached is the bound of the last one wanted of the nearest, 0 if there are fewer.
func (n *nearRead) reached() float32 {
	if len(n.best) < n.wanted {
		return 0
	}
	return n.best[n.wanted-1]
}

// tell says how many entries were looked at, which is paid for.
func (n *nearRead) tell() (command.Step, error) {
	looked := n.rd.visited - n.rd.silent
	n.rd.silent = n.rd.visited
	return refused(command.Passed(n.rd.v, token.AtPosition(n.begin), []byte{}, looked))
}

// collect adds the leads of a list. Bytes of values need no escape.
func (n *nearRead) collect(list int) error {
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
		if n.rd.visited++; n.here(place) {
			n.lead(n.search.Bound(value), n.search.Code(value), place)
		}
		return true, n.rd.tick()
	})
}

// walk passes on the entries between two values, until fn wants no more.
func (n *nearRead) walk(from, limit []byte, fn func(value, place []byte) (bool, error)) error {
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

// packSpan is how wide the range is, at least, of a read that packs lists: a whole list is read for that, of which one
// of a logical partition needs next to nothing.
const packSpan = 1 << 56

// packed is a list in packed form, nil if it is not worth packing.
func (n *nearRead) packed(k packKey) (*pack, error) {
	rd := n.rd
	if p := rd.s.near.get(k); p != nil || rd.s.near.most <= 0 || n.last-n.begin < packSpan {
		return p, nil
	}
	p := &n.fresh
	p.key, p.stamp, p.large, p.places, p.ends = k, n.stamp, false, p.places[:0], p.ends[:0]
	p.codes.Reset()
	limit := append(k.head[:packHead:packHead], 0xff, 0xff, 0xff) // no code begins with the last of these
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
		rd.s.near.put(p)
	}
	return p, err
}

// unpack adds the leads of a packed list.
func (n *nearRead) unpack(p *pack) {
	first, limit := p.stretch(n.begin, n.last)
	n.rd.visited += limit - first
	n.hits = n.search.Hits(n.hits[:0], &p.codes, first, limit, n.least)
	n.more = n.more || len(n.hits) < limit-first
	for i := range n.hits {
		h := &n.hits[i]
		if place := p.place(h.At); n.here(place) {
			n.wire = p.codes.AppendCode(n.wire[:0], h.At)
			n.lead(h.Bound, n.wire, place)
		}
	}
}

// here reports whether a place is in the range that is read.
func (n *nearRead) here(place []byte) bool {
	ring := keys.RingOf(place)
	return ring >= n.begin && ring <= n.last
}

// lead adds a lead to a place, by an entry with a bound and a code.
func (n *nearRead) lead(bound float32, code, place []byte) {
	if bound < n.least {
		n.more = true
		return
	}
	at, _ := slices.BinarySearchFunc(n.best, bound, func(a, b float32) int { return cmp.Compare(b, a) })
	if at < n.wanted {
		n.best = slices.Insert(n.best[:min(len(n.best), n.wanted-1)], at, bound)
	}
	h := lead{bound: bound, code: maphash.Bytes(codeSeed, code)}
	if n.behind != nil && compareLeads(&h, n.behind, place, n.behindPlace) <= 0 {
		return
	}
	h.from = uint32(len(n.places))
	n.places = append(n.places, place...)
	h.end = uint32(len(n.places))
	if n.list = append(n.list, h); len(n.list) >= 2*n.most {
		n.prune()
	}
}

// prune leaves out the leads that lead furthest.
func (n *nearRead) prune() {
	slices.SortFunc(n.list, func(a, b lead) int { return n.compare(&a, &b) })
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

// pop takes the lead to what may be the nearest.
func (l *leads) pop() lead {
	h := l.list[0]
	last := len(l.list) - 1
	l.list[0] = l.list[last]
	l.list = l.list[:last]
	l.sink(0)
	return h
}

func (l *leads) sink(i int) {
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

// follow visits the row that a lead leads to, if it has the vector that the entry is of. Each row is announced with its
// partition.
func (n *nearRead) follow(h *lead) (command.Step, error) {
	rd := n.rd
	n.part, n.code = 0, h.code
	clustering, err := n.enter(n.at(h))
	if err != nil || !rd.wanted(clustering) {
		return command.More, err
	}
	rd.resume = false
	return rd.fetch(clustering)
}
