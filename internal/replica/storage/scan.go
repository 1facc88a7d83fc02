// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// partition reads the current partition. It first delivers the data that load has read, and then the rows of the slices
// in order.
func (rd *reader) partition() (command.Step, error) {
	if rd.header.Static.Exists() && !rd.resume {
		if step, err := rd.announce(); err != nil || step != command.More {
			return step, err
		}
	}
	if rd.r.NoRows && rd.announced {
		return command.NextPartition, nil
	}
	n := len(rd.r.Slices)
	if n == 0 {
		return rd.slice(nil, nil)
	}
	for i := range n {
		s := &rd.r.Slices[i]
		if rd.r.Reversed {
			s = &rd.r.Slices[n-1-i]
		}
		if step, err := rd.slice(s.Start, s.End); err != nil || step != command.More {
			return step, err
		}
	}
	return command.More, nil
}

// slice reads the rows of [start, end) of the current partition.
func (rd *reader) slice(start, end []byte) (command.Step, error) {
	rd.lo = append(append(append(rd.lo[:0], rd.prefix...), keys.Row), start...)
	rd.hi = append(rd.hi[:0], rd.prefix...)
	if end != nil {
		rd.hi = append(append(rd.hi, keys.Row), end...)
	} else {
		rd.hi = append(rd.hi, keys.Dedupe)
	}
	if rd.resume {
		rd.narrow()
	}
	if bytes.Compare(rd.lo, rd.hi) >= 0 {
		return command.More, nil
	}
	if rd.r.Reversed {
		return rd.backward()
	}
	return rd.forward()
}

// narrow excludes the rows of previous pages from the slice.
func (rd *reader) narrow() {
	rd.seek = append(append(append(rd.seek[:0], rd.prefix...), keys.Row), rd.r.AfterClustering...)
	if rd.r.Reversed {
		if bytes.Compare(rd.seek, rd.hi) < 0 {
			rd.hi = append(rd.hi[:0], rd.seek...)
		}
		return
	}
	if rd.seek = append(rd.seek, 0); bytes.Compare(rd.seek, rd.lo) > 0 {
		rd.lo = append(rd.lo[:0], rd.seek...)
	}
}

// forward reads rows in ascending order from rd.lo to rd.hi.
func (rd *reader) forward() (command.Step, error) {
	it := rd.it
	var valid bool
	switch {
	case rd.fresh && bytes.Compare(it.Key(), rd.lo) >= 0:
		valid = true
	case rd.header.MoreRanges && !rd.cover.knows(rd.lo[len(rd.prefix)+1:]):
		from := rd.lo[len(rd.prefix)+1:]
		rd.seekTo(rd.cover.target(from)) // most reads can use the main iterator and need no second iterator
		if err := rd.cover.take(it, from); err != nil {
			return command.Stop, err
		}
		valid = rd.seekTo(rd.lo)
	case rd.pinned != nil:
		valid = rd.seekNear()
	default:
		valid = rd.seekTo(rd.lo)
	}
	rd.fresh = false
	base := len(rd.prefix) + 1
	runs := rd.runs
	for valid {
		key := it.Key()
		if bytes.Compare(key, rd.hi) >= 0 {
			break
		}
		if len(runs) > 0 {
			if runs = runsAfter(runs, key[base:]); len(runs) > 0 && bytes.Compare(runs[0].start, key[base:]) <= 0 {
				rd.s.m.tombstoneSkips.Add(1)
				if runs[0].end == nil {
					break
				}
				rd.seek = append(append(rd.seek[:0], rd.prefix[:base-1]...), keys.Row)
				rd.seek = append(rd.seek, runs[0].end...)
				runs = runs[1:]
				valid = it.SeekGE(rd.seek)
				continue
			}
		}
		if step, err := rd.visit(key[base:]); err != nil || step != command.More {
			return step, err
		}
		if rd.single() {
			return command.More, nil
		}
		valid = rd.next()
	}
	return command.More, it.Error()
}

// seekNear moves a pinned iterator to the first key at or after rd.lo. It avoids a seek if the iterator is at this key
// or just before it. This case is frequent because a transaction often reads its rows in order.
func (rd *reader) seekNear() bool {
	it := rd.it
	if !it.Valid() {
		return rd.seekTo(rd.lo)
	}
	order := bytes.Compare(it.Key(), rd.lo)
	if order == 0 || order < 0 && !rd.s.hot.leaves(it.Key()) && it.Next() && bytes.Compare(it.Key(), rd.lo) >= 0 {
		return true
	}
	return rd.seekTo(rd.lo)
}

// single reports whether the slice contains only its start key.
func (rd *reader) single() bool {
	n := len(rd.lo)
	return len(rd.hi) == n+1 && rd.hi[n] == 0 && bytes.Equal(rd.hi[:n], rd.lo)
}

// next moves to the next key. It skips the old versions of a frequently written key.
func (rd *reader) next() bool {
	if key := rd.it.Key(); rd.s.hot.leaves(key) {
		rd.seek = append(append(rd.seek[:0], key...), 0)
		return rd.seekTo(rd.seek)
	}
	return rd.it.Next()
}

// backward reads rows in descending order from rd.hi to rd.lo.
func (rd *reader) backward() (command.Step, error) {
	it := rd.it
	base := len(rd.prefix) + 1
	runs := rd.runs
	valid := it.SeekLT(rd.hi)
	for valid {
		key := it.Key()
		if bytes.Compare(key, rd.lo) < 0 {
			break
		}
		for len(runs) > 0 && bytes.Compare(runs[len(runs)-1].start, key[base:]) > 0 {
			runs = runs[:len(runs)-1]
		}
		if n := len(runs) - 1; n >= 0 && runs[n].covers(key[base:]) {
			rd.s.m.tombstoneSkips.Add(1)
			rd.seek = append(append(rd.seek[:0], rd.prefix...), keys.Row)
			rd.seek = append(rd.seek, runs[n].start...)
			runs = runs[:n]
			valid = it.SeekLT(rd.seek)
			continue
		}
		if step, err := rd.visit(key[base:]); err != nil || step != command.More {
			return step, err
		}
		valid = it.Prev()
	}
	return command.More, it.Error()
}

// visit resolves the row at the iterator and delivers the row if it exists.
func (rd *reader) visit(clustering []byte) (command.Step, error) {
	rd.visited++
	if err := rd.tick(); err != nil {
		return command.Stop, err
	}
	value, err := rd.it.ValueAndErr()
	if err != nil {
		return command.Stop, err
	}
	deleted, err := rd.deleted(clustering)
	if err != nil {
		return command.Stop, err
	}
	if rd.pinned != nil {
		if err := rd.pinned.note(clustering, value, deleted); err != nil {
			return command.Stop, err
		}
	}
	exists, err := rd.row.Resolve(value, rd.expired.Covering(value, deleted), rd.r.Now, rd.r.Dropped)
	rd.noteLarge(value)
	if err != nil {
		return command.Stop, err
	}
	if !exists {
		if rd.walked++; rd.walked == rd.s.tombstones.walkMax {
			rd.s.tombstones.hints.add(rd.prefix, clustering, rd.r.Now, rd.r.Reversed, true)
		}
		return command.More, nil
	}
	rd.walked = 0
	if rd.found != nil && !rd.found() {
		return command.More, nil
	}
	return rd.deliver(clustering)
}

// announce passes the current partition to the visitor unless the visitor has already received it.
func (rd *reader) announce() (command.Step, error) {
	rd.announced = true
	rd.invariants.checkAnnounced(rd)
	var static *row.Row
	if rd.r.Statics && rd.header.Static.Exists() {
		static = &rd.header.Static
	}
	return refused(rd.v.Partition(rd.tok, rd.pk, static))
}

// deliver passes a live row to the visitor.
func (rd *reader) deliver(clustering []byte) (command.Step, error) {
	if !rd.announced {
		if step, err := rd.announce(); err != nil || step != command.More {
			return step, err
		}
	}
	if rd.r.NoRows {
		return command.NextPartition, nil
	}
	rd.invariants.checkDelivered(rd, clustering)
	return refused(rd.v.Row(clustering, &rd.row))
}
