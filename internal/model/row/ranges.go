// SPDX-License-Identifier: Apache-2.0

package row

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Range is a deleted interval [Start, End) of clustering keys. A nil End is unbounded.
type Range struct {
	Start, End []byte
	// Timestamp is the timestamp of the deletion in microseconds. At is the second of the deletion.
	Timestamp int64
	At        int64
}

// Contains reports whether a clustering key is in the range.
func (r *Range) Contains(key []byte) bool {
	return bytes.Compare(r.Start, key) <= 0 && r.before(key)
}

// before reports whether a key is before the end of the range.
func (r *Range) before(key []byte) bool { return r.End == nil || bytes.Compare(key, r.End) < 0 }

func (r *Range) empty() bool { return r.End != nil && bytes.Compare(r.Start, r.End) >= 0 }

func (r *Range) strength() deletion { return deletion{r.Timestamp, r.At} }

// AppendRange appends the stored form of a deleted range, which is an operand that contains only this range.
func (r *Range) AppendRange(dst []byte) []byte {
	h := head{base: r.Timestamp, deleted: deletion{ts: NotDeleted}}
	return h.append(dst, []Range{*r})
}

// Resolve decodes a range in stored form. The range's slices point into value. An error wraps ErrCorrupt.
func (r *Range) Resolve(value []byte) error {
	var h head
	pos := h.read(value)
	if pos != len(value) || h.ranges == nil {
		return fmt.Errorf("deleted range: %w", ErrCorrupt)
	}
	if n, at := uvarint(h.ranges, 0); n != 1 || readRange(h.ranges, at, h.base, r) < 0 {
		return fmt.Errorf("deleted range: %w", ErrCorrupt)
	}
	return nil
}

// Normalize returns the ranges as a disjoint, ascending list. In this list, every key has the strongest deletion that
// covers it. It may reorder in.
func Normalize(in []Range) []Range {
	var s rangeScratch
	return slices.Clone(s.normalize(in))
}

func appendRanges(dst []byte, ranges []Range, base int64) []byte {
	if len(ranges) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(ranges)))
	for i := range ranges {
		r := &ranges[i]
		var flags byte
		if r.End == nil {
			flags = rangeUnbounded
		}
		dst = append(dst, flags)
		dst = appendDelta(dst, r.Timestamp-base)
		dst = binary.AppendUvarint(dst, uint64(max(r.At, 0)))
		dst = appendBytes(dst, r.Start)
		if r.End != nil {
			dst = appendBytes(dst, r.End)
		}
	}
	return dst
}

// readRange decodes one range. If the range is corrupt, the returned position is negative.
func readRange(b []byte, pos int, base int64, r *Range) int {
	if uint(pos) >= uint(len(b)) || b[pos] > rangeUnbounded {
		return -1
	}
	unbounded := b[pos] == rangeUnbounded
	d, pos := readDelta(b, pos+1)
	r.Timestamp = base + d
	r.At, pos = readSecond(b, pos)
	r.Start, pos = readBytes(b, pos)
	if r.End = nil; !unbounded {
		r.End, pos = readBytes(b, pos)
	}
	return pos
}

// skipRanges returns the position after an encoded list of ranges. If the list is corrupt, unordered, or overlapping,
// the position is negative.
func skipRanges(b []byte, pos int) int {
	n, pos := uvarint(b, pos)
	if n == 0 || n > math.MaxInt32 {
		return -1
	}
	var r, last Range
	for i := uint64(0); i < n && pos >= 0; i++ {
		if pos = readRange(b, pos, 0, &r); pos < 0 || r.empty() {
			return -1
		}
		if i > 0 && (last.End == nil || bytes.Compare(last.End, r.Start) > 0) {
			return -1
		}
		last = r
	}
	return pos
}

// appendDecoded appends the ranges of an encoded list that skipRanges has accepted.
func appendDecoded(dst []Range, b []byte, base int64) []Range {
	if b == nil {
		return dst
	}
	n, pos := uvarint(b, 0)
	dst = slices.Grow(dst, int(min(n, uint64(len(b)))))
	for i := uint64(0); i < n; i++ {
		var r Range
		pos = readRange(b, pos, base, &r)
		dst = append(dst, r)
	}
	return dst
}

// rangeScratch turns overlapping ranges into disjoint ranges.
type rangeScratch struct {
	bounds [][]byte
	active rangeHeap
	out    []Range
	head   []Range // start of a list that is being sorted
}

// rangeHeap is a heap whose top element is the strongest range.
type rangeHeap []Range

func (h rangeHeap) Len() int           { return len(h) }
func (h rangeHeap) Less(i, j int) bool { return h[i].strength().wins(h[j].strength()) }
func (h rangeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rangeHeap) Push(x any)        { *h = append(*h, x.(Range)) }
func (h *rangeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = Range{}
	*h = old[:len(old)-1]
	return x
}

// normalize returns the ranges as a disjoint, ascending list. In this list, every key has the strongest deletion that
// covers it. Adjacent ranges of the same deletion are joined. It may reorder in. The result is valid until the next
// call.
func (s *rangeScratch) normalize(in []Range) []Range {
	in = slices.DeleteFunc(in, func(r Range) bool { return r.empty() })
	s.sort(in)
	if disjoint(in) {
		s.out = append(s.out[:0], in...)
		s.out = coalesce(s.out)
		return s.out
	}
	s.bounds = s.bounds[:0]
	for i := range in {
		s.bounds = append(s.bounds, in[i].Start)
		if in[i].End != nil {
			s.bounds = append(s.bounds, in[i].End)
		}
	}
	slices.SortFunc(s.bounds, bytes.Compare)
	s.bounds = slices.CompactFunc(s.bounds, bytes.Equal)
	s.active, s.out = s.active[:0], s.out[:0]
	next := 0
	for i, from := range s.bounds {
		for ; next < len(in) && bytes.Equal(in[next].Start, from); next++ {
			heap.Push(&s.active, in[next])
		}
		for len(s.active) > 0 && !s.active[0].before(from) {
			heap.Pop(&s.active)
		}
		if len(s.active) == 0 {
			continue
		}
		var to []byte
		if i+1 < len(s.bounds) {
			to = s.bounds[i+1]
		}
		top := &s.active[0]
		s.out = append(s.out, Range{from, to, top.Timestamp, top.At})
	}
	s.out = coalesce(s.out)
	return s.out
}

// sort orders ranges by their start. Typically, a few new ranges precede a long sorted list.
func (s *rangeScratch) sort(in []Range) {
	compare := func(x, y Range) int { return bytes.Compare(x.Start, y.Start) }
	n := max(len(in)-1, 0)
	for n > 0 && compare(in[n-1], in[n]) <= 0 {
		n--
	}
	if n == 0 {
		return
	}
	slices.SortFunc(in[:n], compare)
	s.head = append(s.head[:0], in[:n]...)
	a, b, to := s.head, in[n:], in[:0]
	for len(a) > 0 && len(b) > 0 { // the write index to cannot overtake b, because the gap between them is as long as a
		if compare(a[0], b[0]) <= 0 {
			to, a = append(to, a[0]), a[1:]
		} else {
			to, b = append(to, b[0]), b[1:]
		}
	}
	copy(in[len(to):], a) // the rest of b is already in place
	clear(s.head)
}

func disjoint(sorted []Range) bool {
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].End == nil || bytes.Compare(sorted[i-1].End, sorted[i].Start) > 0 {
			return false
		}
	}
	return true
}

// coalesce joins adjacent ranges of the same deletion, in place.
func coalesce(in []Range) []Range {
	n := 0
	for i := range in {
		if n > 0 {
			last := &in[n-1]
			if last.strength() == in[i].strength() && last.End != nil && bytes.Equal(last.End, in[i].Start) {
				last.End = in[i].End
				continue
			}
		}
		in[n] = in[i]
		n++
	}
	return in[:n]
}
