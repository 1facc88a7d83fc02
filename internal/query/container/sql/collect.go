// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"container/heap"
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Bounds limits the state of a run.
type Bounds struct {
	// Memory is the estimated size in bytes of sorted rows, groups, and distinct values.
	Memory int
}

// DefaultBounds replaces a zero Bounds.
var DefaultBounds = Bounds{Memory: 64 << 20}

// position is a position in the result order. It consists of the sort values and a tie breaker.
type position struct {
	keys  []document.Value
	place string // place of the item, or the key of the group
	row   int    // number of the row within the item, starting at 1
}

// entry is a result that is kept until all rows have been seen.
type entry struct {
	position
	value document.Value
}

// group is a set of rows with equal GROUP BY values.
type group struct {
	values     []document.Value
	aggregates []aggregate
}

// collector converts rows to results. It returns a result immediately if possible, and otherwise when finish is
// called.
type collector struct {
	q    *boundQuery
	e    *env
	keep func(document.Value) document.Value
	emit func(document.Value) bool
	// collect delays all results until finish.
	collect bool

	memory, size     int
	skip, left, page int64 // remaining rows of OFFSET, LIMIT, and the page; -1 if not limited
	after            *position
	last             position // position of the last result returned
	full             bool     // the page is full and there are more results
	pageBytes, given int      // maximum size of a page's results (0 for no limit) and their current size in bytes
	done             bool     // the limit is reached
	moved            bool     // last belongs to this page
	ordered          bool     // No later row precedes the current row.

	entries []entry
	seen    map[string]int // entry of each DISTINCT value
	groups  map[string]*group
	scratch []byte
	keys    []document.Value
}

func newCollector(q *boundQuery, e *env, bounds Bounds, keep func(document.Value) document.Value) *collector {
	if bounds.Memory == 0 {
		bounds.Memory = DefaultBounds.Memory
	}
	c := &collector{q: q, e: e, keep: keep, memory: bounds.Memory, skip: q.offset, left: q.limit, page: -1}
	c.keys = make([]document.Value, len(q.orders))
	return c
}

// streams reports whether results are returned as rows arrive.
func (c *collector) streams() bool { return !c.collect && !c.q.grouped && len(c.q.orders) == 0 }

// compare defines the order of results.
func (c *collector) compare(a, b *position) int {
	for i, o := range c.q.orders {
		if n := document.Compare(a.keys[i], b.keys[i]); n != 0 {
			if o.descending {
				return -n
			}
			return n
		}
	}
	if n := compareText(a.place, b.place); n != 0 {
		return n
	}
	return a.row - b.row
}

// grow adds to the memory usage and stops the run when the limit is exceeded.
func (c *collector) grow(n int) {
	if c.size += n; !c.e.keep(n) {
		return
	}
	if c.size > c.memory {
		what := "sorts"
		switch {
		case c.q.grouped:
			what = "groups"
		case c.q.distinct:
			what = "deduplicates"
		}
		c.e.fail(&LimitError{"The query " + what + " more data than the memory limit allows (" +
			document.IntegerValue(int64(c.memory)).String() + " bytes). Select fewer properties, restrict the query with WHERE, " +
			"request smaller pages, or specify a partition key."})
	}
}

// row adds the row in the slots. row is the number of the row within the item at place. row returns false when no more
// rows are needed.
func (c *collector) row(place string, row int) bool {
	switch {
	case c.q.grouped:
		return c.group()
	case c.streams():
		return c.stream(place, row)
	}
	return c.order(place, row)
}

// stream returns a row's result immediately.
func (c *collector) stream(place string, row int) bool {
	return c.streamed(position{place: place, row: row}, func() document.Value { return c.q.project.eval(c.e) })
}

// streamed works like stream for the row at a position.
func (c *collector) streamed(p position, project func() document.Value) bool {
	if c.left == 0 {
		c.done = true
		return false
	}
	old := c.after != nil && c.compare(&p, c.after) <= 0
	if old && !c.q.distinct {
		return true
	}
	if c.page == 0 && !c.q.distinct {
		c.full = true
		return false
	}
	v := project()
	if c.q.distinct {
		if !c.key(v) {
			return false
		}
		if _, ok := c.seen[string(c.scratch)]; ok {
			return c.e.err == nil
		}
		if c.page == 0 && !old {
			c.full = true
			return false
		}
		if c.seen == nil {
			c.seen = map[string]int{}
		}
		c.seen[string(c.scratch)] = 0
		if c.grow(len(c.scratch) + 64); old || c.e.err != nil {
			return c.e.err == nil
		}
	}
	return c.give(p, v)
}

// key writes the canonical text of a value to scratch. Equal values have equal texts.
func (c *collector) key(v document.Value) bool {
	n := v.TextSize()
	if !c.e.work(keySteps(v)) || n > cap(c.scratch) && !c.e.alloc(2*n) {
		return false
	}
	c.scratch = appendKey(c.scratch[:0], v)
	return true
}

// give returns a result unless OFFSET skips it or it is Undefined. give returns false when no more results are needed.
func (c *collector) give(p position, v document.Value) bool {
	if c.e.err != nil {
		return false
	}
	if !v.IsDefined() {
		return true
	}
	if c.skip > 0 {
		c.last, c.moved = p, true
		c.skip--
		return true
	}
	if c.pageBytes > 0 {
		n := v.TextSize()
		if n > textMax {
			c.e.tooLong()
			return false
		}
		if c.given > 0 && c.given+n > c.pageBytes {
			c.full = true
			return false
		}
		c.given += n + 1
	}
	c.last, c.moved = p, true
	if !c.emit(v) {
		return false
	}
	if c.page > 0 {
		c.page--
	}
	if c.left > 0 {
		if c.left--; c.left == 0 {
			c.done = true
			return false
		}
	}
	return true
}

// need returns the number of leading results that must be kept: the results of the page, and one additional result to
// detect whether more results follow. need returns -1 if all results must be kept.
func (c *collector) need() int64 {
	n := c.page
	if c.left >= 0 && (n < 0 || c.left < n) {
		n = c.left
	}
	if n < 0 || c.q.distinct {
		return -1
	}
	return c.skip + n + 1
}

// order keeps a row until finish.
func (c *collector) order(place string, row int) bool {
	p := position{keys: c.keys, place: place, row: row}
	for i, o := range c.q.orders {
		c.keys[i] = o.node.eval(c.e)
		if !c.keys[i].IsDefined() && len(c.q.orders) == 1 {
			// An item without the only sort property has no result, because an index on the property would not contain
			// the item.
			return c.e.err == nil
		}
	}
	return c.insert(p, func() document.Value { return c.q.project.eval(c.e) })
}

// insert keeps an entry if it can be among the results. The caller may reuse p.keys and the value afterward.
func (c *collector) insert(p position, project func() document.Value) bool {
	if c.e.err != nil {
		return false
	}
	if c.after != nil && !c.q.distinct && c.compare(&p, c.after) <= 0 {
		return true
	}
	n := c.need()
	if n >= 0 && int64(len(c.entries)) >= n && c.compare(&p, &c.entries[0].position) >= 0 {
		return !c.ordered
	}
	v := project()
	if c.e.err != nil || !v.IsDefined() {
		return c.e.err == nil
	}
	if c.q.distinct {
		if !c.key(v) {
			return false
		}
		if at, ok := c.seen[string(c.scratch)]; ok {
			if c.compare(&p, &c.entries[at].position) < 0 {
				c.entries[at] = entry{c.own(p), c.keep(v)}
			}
			return true
		}
		if c.seen == nil {
			c.seen = map[string]int{}
		}
		c.seen[string(c.scratch)] = len(c.entries)
		c.grow(len(c.scratch) + 64)
	}
	x := entry{c.own(p), c.keep(v)}
	c.grow(x.value.Size())
	if n < 0 {
		c.entries = append(c.entries, x)
		return c.e.err == nil
	}
	heap.Push((*entryHeap)(c), x)
	if int64(len(c.entries)) > n {
		out := heap.Pop((*entryHeap)(c)).(entry)
		c.grow(-out.value.Size() - out.size())
	}
	return c.e.err == nil
}

// own returns a copy of a position that may be retained.
func (c *collector) own(p position) position {
	p.keys = slices.Clone(p.keys)
	for i, k := range p.keys {
		p.keys[i] = c.keep(k)
	}
	c.grow(p.size())
	return p
}

func (p *position) size() int {
	n := 64 + len(p.place)
	for _, k := range p.keys {
		n += k.Size()
	}
	return n
}

// entryHeap is a heap of entries. Its first element is the last in the result order.
type entryHeap collector

func (f *entryHeap) Len() int { return len(f.entries) }
func (f *entryHeap) Less(i, j int) bool {
	return (*collector)(f).compare(&f.entries[i].position, &f.entries[j].position) > 0
}
func (f *entryHeap) Swap(i, j int) { f.entries[i], f.entries[j] = f.entries[j], f.entries[i] }
func (f *entryHeap) Push(x any)    { f.entries = append(f.entries, x.(entry)) }
func (f *entryHeap) Pop() any {
	last := len(f.entries) - 1
	x := f.entries[last]
	f.entries[last] = entry{}
	f.entries = f.entries[:last]
	return x
}

// group adds the row to its group.
func (c *collector) group() bool {
	c.scratch = c.scratch[:0]
	for i, n := range c.q.groups {
		v := n.eval(c.e)
		c.e.set(c.q.groupSlots[i], v)
		if size := len(c.scratch) + v.TextSize(); !c.e.work(keySteps(v)) ||
			size > cap(c.scratch) && !c.e.alloc(2*size) {
			return false
		}
		c.scratch = append(appendKey(c.scratch, v), 0)
	}
	if c.e.err != nil {
		return false
	}
	g := c.groupOf(func(i int) document.Value { return c.e.slots[c.q.groupSlots[i]] })
	for i := range c.q.aggregates {
		a := &c.q.aggregates[i]
		v := a.arg.eval(c.e)
		if a.kind >= aggregateMin && !c.e.alloc(3*v.TextSize()) {
			return false
		}
		if n := g.aggregates[i].add(a.kind, v, c.keep); n > 0 {
			c.grow(n)
		}
		if c.e.err != nil {
			return false
		}
	}
	return c.e.err == nil
}

// groupOf returns the group with the key in scratch. If none exists, it creates a group with the values.
func (c *collector) groupOf(value func(i int) document.Value) *group {
	if g, ok := c.groups[string(c.scratch)]; ok {
		return g
	}
	if c.groups == nil {
		c.groups = map[string]*group{}
	}
	g := &group{make([]document.Value, len(c.q.groups)), make([]aggregate, len(c.q.aggregates))}
	size := 128 + len(c.scratch) + 128*len(g.aggregates)
	for i := range g.values {
		g.values[i] = c.keep(value(i))
		size += g.values[i].Size()
	}
	c.groups[string(c.scratch)] = g
	c.grow(size)
	return g
}

// results converts the groups to entries.
func (c *collector) results() {
	if len(c.q.groups) == 0 && len(c.groups) == 0 {
		// Aggregates over zero rows also have values.
		c.scratch = c.scratch[:0]
		c.groupOf(nil)
	}
	for key, g := range c.groups {
		for i, slot := range c.q.groupSlots {
			c.e.set(slot, g.values[i])
		}
		for i, a := range c.q.aggregates {
			c.e.set(a.slot, g.aggregates[i].result(a.kind))
		}
		p := position{keys: c.keys, place: key}
		for i, o := range c.q.orders {
			c.keys[i] = o.node.eval(c.e)
		}
		if !c.insert(p, func() document.Value { return c.q.project.eval(c.e) }) {
			return
		}
	}
}

// sorted returns the entries in the result order.
func (c *collector) sorted() []entry {
	slices.SortFunc(c.entries, func(a, b entry) int { return c.compare(&a.position, &b.position) })
	return c.entries
}

// finish returns the kept results. finish returns false if the consumer stops early.
func (c *collector) finish() bool {
	if c.streams() {
		return c.e.err == nil
	}
	if c.q.grouped {
		c.results()
	}
	if c.e.err != nil {
		return false
	}
	c.sorted()
	for i := range c.entries {
		x := &c.entries[i]
		if c.after != nil && c.compare(&x.position, c.after) <= 0 {
			continue
		}
		if c.left == 0 {
			c.done = true
			return true
		}
		if c.page == 0 {
			c.full = true
			return true
		}
		if !c.give(x.position, x.value) {
			return c.done
		}
	}
	return true
}
