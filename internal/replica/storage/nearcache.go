// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"container/list"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// nearCache keeps lists of vectors packed: to look at a packed entry takes a thirtieth of what it takes to step over
// a key.
//
// Invariant: a packed list has all entries of its list that were committed when the clock showed its stamp. Whoever
// adds an entry moves the clock after the commit, and stamps the list with it before anybody is told of the write. So a
// packed list whose stamp is not below that of the list lacks nothing that was acknowledged. An entry that was removed
// since leads to a row that does not have its vector.
type nearCache struct {
	clock atomic.Uint64
	// arrived is the stamp of all lists, stamps have those of some lists each.
	arrived atomic.Uint64
	stamps  [nearStamps]atomic.Uint64

	mu sync.Mutex
	// bytes is what packs take, never more than most. order has them, the one that was used last in front.
	bytes, most int64
	packs       map[packKey]*list.Element
	order       *list.List
}

// nearStamps is how many stamps there are: lists that share one are packed anew together.
const nearStamps = 1 << 14

// packKey names a list: the index, and what the values of all its entries begin with.
type packKey struct {
	index uint32
	head  [packHead]byte
}

// packHead is the length of the generation and the list in the value of an entry.
const packHead = 3

// pack is a list, packed. It is immutable.
type pack struct {
	key   packKey
	stamp uint64
	// large says that the list had too many entries to be packed, which another entry does not change.
	large bool
	// codes are those of entries, in order; places are where their rows stand, each of which ends where ends says.
	codes  vector.Codes
	places []byte
	ends   []uint32
}

// packMax is how many entries are packed of one list.
const packMax = 8192

// clone copies what was packed to where it takes no more than it needs, and leaves out what is too large.
func (p *pack) clone() *pack {
	if p.large {
		return &pack{key: p.key, stamp: p.stamp, large: true}
	}
	out := &pack{key: p.key, stamp: p.stamp, codes: p.codes.Clone()}
	out.places = append(make([]byte, 0, len(p.places)), p.places...)
	out.ends = append(make([]uint32, 0, len(p.ends)), p.ends...)
	return out
}

// ringBits is by how many of the first bits of their places on the ring entries of a list are in order.
const ringBits = 14

// stretch returns the numbers of the first entry whose row may stand at a place on the ring or behind it, and of the
// first that stands behind another one.
func (p *pack) stretch(begin, last uint64) (first, limit int) {
	const shift = 64 - ringBits
	if limit = len(p.ends); begin>>shift > 0 {
		first = sort.Search(limit, func(i int) bool { return keys.RingOf(p.place(i))>>shift >= begin>>shift })
	}
	if last>>shift < 1<<ringBits-1 {
		limit = sort.Search(limit, func(i int) bool { return keys.RingOf(p.place(i))>>shift > last>>shift })
	}
	return first, max(first, limit)
}

// place is where the row of an entry stands.
func (p *pack) place(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.places[from:p.ends[i]]
}

// size is what a packed list takes, in bytes.
func (p *pack) size() int64 {
	return p.codes.Size() + int64(cap(p.places)+4*cap(p.ends)) + 256
}

// init makes the cache ready, for packs of so many bytes together; it keeps none if that is not positive.
func (c *nearCache) init(most int64) {
	c.most, c.packs, c.order = most, map[packKey]*list.Element{}, list.New()
}

// slot is the number of the stamp of a list.
func (k *packKey) slot() int {
	h := k.index * 0x9e3779b1
	for _, b := range k.head {
		h = (h ^ uint32(b)) * 0x01000193
	}
	return int(h>>16^h) % nearStamps
}

// now is the stamp of what is read from the store after the call.
func (c *nearCache) now() uint64 { return c.clock.Load() }

// added is told of an entry that was committed, before anybody else is.
func (c *nearCache) added(slot int) { raise(&c.stamps[slot], c.clock.Add(1)) }

// arrive is told that many entries may have come.
func (c *nearCache) arrive() { raise(&c.arrived, c.clock.Add(1)) }

func raise(to *atomic.Uint64, stamp uint64) {
	for {
		if now := to.Load(); now >= stamp || to.CompareAndSwap(now, stamp) {
			return
		}
	}
}

// get is a packed list that lacks nothing, nil if there is none.
func (c *nearCache) get(k packKey) *pack {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.packs[k]
	if e == nil {
		return nil
	}
	p := e.Value.(*pack)
	if p.stamp < c.arrived.Load() || !p.large && p.stamp < c.stamps[k.slot()].Load() {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	return p
}

// put keeps a packed list, in the place of those that were not used for the longest time.
func (c *nearCache) put(p *pack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.packs[p.key]; e != nil {
		if e.Value.(*pack).stamp > p.stamp {
			return
		}
		c.drop(e)
	}
	if p.size() > c.most {
		return
	}
	for c.bytes+p.size() > c.most {
		c.drop(c.order.Back())
	}
	c.bytes += p.size()
	c.packs[p.key] = c.order.PushFront(p)
}

// size is how many bytes packed lists take.
func (c *nearCache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// drop forgets a packed list.
func (c *nearCache) drop(e *list.Element) {
	p := c.order.Remove(e).(*pack)
	delete(c.packs, p.key)
	c.bytes -= p.size()
}
