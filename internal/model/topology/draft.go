// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"slices"
)

// draft is a version of a topology that is being created. Only a draft changes. Its Snapshot is immutable once it has
// been returned. The draft shares partitions with the previous version because partitions are immutable.
type draft struct{ *Snapshot }

// next returns a copy of the snapshot as the basis of a change.
func (s *Snapshot) next() draft {
	out := *s
	out.version++
	return draft{&out}
}

// with returns a topology in which a partition replaces the partition with the same ID.
func with(s *Snapshot, p *Partition) *Snapshot {
	out := s.next()
	out.put(p)
	return out.Snapshot
}

// sets returns replica sets with a new replica on each node of the places.
func (d draft) sets(places []Place) []ReplicaSet {
	out := make([]ReplicaSet, len(places))
	for i, pl := range places {
		out[i].Region = pl.Region
		for _, node := range pl.Nodes {
			out[i].Replicas = append(out[i].Replicas, Replica{ID: d.nextReplica, Node: node})
			d.nextReplica++
		}
		if len(out[i].Replicas) > 0 {
			out[i].Leader = out[i].Replicas[0].ID
		}
	}
	return out
}

// put replaces the partition that has the same ID and the same start.
func (d draft) put(p *Partition) {
	if p.ID == MetaPartition {
		d.meta = p
		return
	}
	i := find(d.Partitions(p.Table), p.Span.Begin)
	d.replace(p.Table, i, i+1, p)
}

// replace replaces the partitions [from, to) of a table with ps.
func (d draft) replace(table uint32, from, to int, ps ...*Partition) {
	old := d.Partitions(table)
	list := make([]*Partition, 0, len(old)-(to-from)+len(ps))
	list = append(append(append(list, old[:from]...), ps...), old[to:]...)
	d.set(table, list, old[from:to], ps)
}

// set replaces the partitions of a table with list. come holds the added partitions, and gone holds the removed
// partitions. An empty list removes the table.
func (d draft) set(table uint32, list, gone, come []*Partition) {
	var stored *[]*Partition
	if len(list) > 0 {
		stored = &list
	}
	d.tables = d.tables.with(uint64(table), stored)
	for _, p := range gone {
		d.byID, d.moving = d.byID.with(uint64(p.ID), nil), d.moving.with(uint64(p.ID), nil)
	}
	for _, p := range come {
		if d.byID = d.byID.with(uint64(p.ID), p); p.inMotion() {
			d.moving = d.moving.with(uint64(p.ID), p)
		}
	}
}

// edit is the set of partitions of a table that records add and remove.
type edit struct {
	gone, come []*Partition
	// touched holds indexes into the changed table. It holds the index of each added partition, and the index of the
	// partition after each removed partition.
	touched []int
}

// edit changes a table without validation, so the table may then contain duplicate partitions or a gap.
func (d draft) edit(table uint32, e *edit) {
	byBegin := func(a, b *Partition) int {
		return cmp.Or(a.Span.Begin.Compare(b.Span.Begin), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(e.come, byBegin)
	slices.SortFunc(e.gone, byBegin)
	old := d.Partitions(table)
	place := func(p *Partition) int {
		i, _ := slices.BinarySearchFunc(old, p.Span.Begin, func(o *Partition, at Position) int {
			return o.Span.Begin.Compare(at)
		})
		return i
	}
	list := make([]*Partition, 0, len(old)+len(e.come))
	at := 0 // old[:at] has been processed
	for come, gone := e.come, e.gone; len(come)+len(gone) > 0; {
		if len(gone) == 0 || len(come) > 0 && place(come[0]) <= place(gone[0]) {
			to := place(come[0])
			list, at = append(append(list, old[at:to]...), come[0]), to
			e.touched, come = append(e.touched, len(list)-1), come[1:]
		} else {
			to := place(gone[0])
			list, at = append(list, old[at:to]...), to+1
			e.touched, gone = append(e.touched, len(list)), gone[1:]
		}
	}
	d.set(table, append(list, old[at:]...), e.gone, e.come)
}
