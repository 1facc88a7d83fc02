// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// SampleOptions limit the data that Sample reads. All limits must be positive.
type SampleOptions struct {
	// Spots is the number of positions at which Sample examines logical partitions. The positions are spread evenly
	// over the tokens. Run is the number of partitions to examine at each position. The sample is random because tokens
	// are hashes.
	Spots, Run int
	// HeavySpots is the number of additional positions at which Sample examines a partition. These positions are spread
	// evenly over the bytes on disk. Sample finds every partition that is larger than 1/HeavySpots of the span.
	HeavySpots int
	// RowsKept is the maximum number of rows that Sample returns for each partition.
	RowsKept int
	// Bytes is the maximum number of logical bytes to read. Sample reads the Spots first and uses the remaining bytes
	// for the HeavySpots.
	Bytes int64
	// Now is the second at which Sample evaluates expiry.
	Now int64
}

// Sample is a sample of a span.
type Sample struct {
	// Complete reports whether Sample read every logical partition completely. A complete sample contains no estimates.
	Complete bool
	// HeavySpots is the value of SampleOptions.HeavySpots.
	HeavySpots int
	Partitions []SampledPartition
}

// SampledPartition is a logical partition. Sizes are logical (see package ru).
type SampledPartition struct {
	Token token.Token
	Key   []byte
	// Heavy reports whether the partition was found by its size. A heavy partition is not part of the random sample.
	Heavy bool
	// Partial reports whether only a part of the partition was read. The sizes of a partial partition are extrapolated
	// from its bytes on disk.
	Partial             bool
	Rows, Bytes, Values float64
	// StaticBytes is included in Bytes.
	StaticBytes int64
	// Kept contains rows from all parts of the partition, in the order of their clustering keys. A row represents as
	// many rows as its Weight indicates.
	Kept []SampledRow
}

// SampledRow is a row of a partition.
type SampledRow struct {
	Clustering    []byte
	Bytes, Values int32
	// Written is the newest timestamp of the row, in microseconds.
	Written int64
	Weight  float64
}

const (
	// wholeMax is the maximum size, in bytes, of a partition that Sample reads completely.
	wholeMax = 1 << 20
	// strata is the number of positions at which Sample examines the rows of a larger partition.
	strata = 32
	// memoryMax is the maximum number of bytes that Sample reads from large partitions in memtables.
	memoryMax = 64 << 20
	// searchSteps is the number of bisections in a search for a token or a clustering key. After all bisections, the
	// interval rarely contains more than one token or key.
	searchSteps = 44
)

// Sample examines a random sample of the logical partitions and the largest partitions of a span.
func (s *Statistics) Sample(ctx context.Context, span keys.Span, o SampleOptions) (Sample, error) {
	v := sampler{s: s, ctx: ctx, span: span, o: o, left: o.Bytes, memory: memoryMax, seen: map[string]bool{}}
	v.out.Complete, v.out.HeavySpots = true, o.HeavySpots
	for _, r := range span.Tokens().Divide(o.Spots) {
		if err := v.spot(r); err != nil {
			return v.out, err
		}
	}
	if !v.out.Complete {
		if err := v.heavy(); err != nil {
			return v.out, err
		}
	}
	for i := range v.out.Partitions {
		if p := &v.out.Partitions[i]; p.Partial {
			if err := v.stratify(p); err != nil {
				return v.out, err
			}
		}
	}
	isPartial := func(p SampledPartition) bool { return p.Partial }
	v.out.Complete = v.out.Complete && !slices.ContainsFunc(v.out.Partitions, isPartial)
	return v.out, nil
}

type sampler struct {
	s    *Statistics
	ctx  context.Context
	span keys.Span
	o    SampleOptions
	// left is the remaining number of bytes of o.Bytes. memory is the remaining number of bytes of memoryMax.
	left, memory int64
	out          Sample
	seen         map[string]bool // keys of examined partitions
}

// read reads partitions at the beginning of a range. It reads up to max partitions and the given number of bytes.
func (v *sampler) read(r token.Range, max int, bytes int64, heavy bool) error {
	w := spotVisitor{v: v, left: max, bytes: bytes, heavy: heavy}
	c := command.Read{Table: v.span.Table, Range: r, Statics: true, Now: v.o.Now}
	if t := v.s.lookupTable(v.span.Table).installed.Load(); t != nil {
		c.Dropped = t.Dropped
	}
	err := v.s.reader.Read(v.ctx, &c, &w)
	w.leave()
	if w.over {
		v.out.Complete = false
	}
	return err
}

func (v *sampler) spot(r token.Range) error {
	return v.read(r, v.o.Run, max(v.o.Bytes/int64(2*v.o.Spots), 1), false)
}

// heavy examines the partitions at positions that are evenly spaced by the bytes on disk.
func (v *sampler) heavy() error {
	lower, upper := v.span.Bounds()
	total, err := v.s.db.EstimateDiskUsage(lower, upper)
	if err != nil || total == 0 {
		return v.s.check(err)
	}
	r := v.span.Tokens()
	lo := uint64(0)
	for i := range v.o.HeavySpots {
		goal := uint64((float64(i) + 0.5) / float64(v.o.HeavySpots) * float64(total))
		lo, err = search(lo, r.Limit-r.Begin-1, func(x uint64) (bool, error) {
			at := keys.AppendToken(keys.AppendTable(nil, v.span.Table), token.AtPosition(r.Begin+x))
			if bytes.Compare(at, lower) <= 0 {
				return true, nil
			}
			n, err := v.s.db.EstimateDiskUsage(lower, at)
			return n < goal, v.s.check(err)
		})
		if err != nil || v.left <= 0 {
			return err
		}
		if err := v.read(token.Range{Begin: r.Begin + lo, Limit: r.Limit}, 1, v.left, true); err != nil {
			return err
		}
	}
	return nil
}

// search returns the last x in [lo, hi] for which before returns true, within the precision of searchSteps. before must
// return true for lo.
func search(lo, hi uint64, before func(x uint64) (bool, error)) (uint64, error) {
	for range searchSteps {
		if hi-lo <= 1 {
			break
		}
		mid := lo + (hi-lo)/2
		ok, err := before(mid)
		if err != nil {
			return lo, err
		}
		if ok {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// spotVisitor is a visitor that collects partitions.
type spotVisitor struct {
	v     *sampler
	left  int
	bytes int64
	heavy bool
	over  bool // a partition or a row was not examined

	p      *SampledPartition // the current partition, or nil
	keeper rowKeeper
}

func (w *spotVisitor) leave() {
	if w.p == nil {
		return
	}
	w.p.Kept = w.keeper.take(w.p.Rows)
	w.v.out.Partitions = append(w.v.out.Partitions, *w.p)
	w.p = nil
}

func (w *spotVisitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	w.leave()
	if !w.v.span.Holds(keys.At(tok, key)) {
		return command.NextPartition, nil
	}
	if w.left == 0 || w.bytes <= 0 || w.v.left <= 0 {
		w.over = true
		return command.Stop, nil
	}
	w.left--
	if w.v.seen[string(key)] {
		return command.NextPartition, nil
	}
	w.v.seen[string(key)] = true
	w.p = &SampledPartition{Token: tok, Key: bytes.Clone(key), Heavy: w.heavy}
	w.keeper = rowKeeper{max: w.v.o.RowsKept}
	if static != nil {
		w.p.StaticBytes = int64(len(key) + static.Size())
		w.spend(w.p.StaticBytes)
		w.p.Bytes, w.p.Values = float64(w.p.StaticBytes), float64(len(static.Cells))
	}
	return command.More, nil
}

func (w *spotVisitor) spend(n int64) {
	w.bytes -= n
	w.v.left -= n
}

func (w *spotVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if w.p.Bytes >= wholeMax {
		w.p.Partial = true
		return command.NextPartition, nil
	}
	w.spend(w.p.row(&w.keeper, clustering, r))
	return command.More, nil
}

// row counts an examined row and returns the number of its logical bytes.
func (p *SampledPartition) row(k *rowKeeper, clustering []byte, r *row.Row) (bytes int64) {
	bytes = int64(len(p.Key) + len(clustering) + r.Size())
	p.Rows++
	p.Bytes += float64(bytes)
	p.Values += float64(len(r.Cells))
	k.note(clustering, bytes, r)
	return bytes
}

// rowKeeper keeps evenly spaced rows without knowing their number in advance.
type rowKeeper struct {
	max, stride, n int
	kept           []SampledRow
}

func (k *rowKeeper) note(clustering []byte, size int64, r *row.Row) {
	if k.stride == 0 {
		k.stride = 1
	}
	if k.n++; (k.n-1)%k.stride != 0 {
		return
	}
	if len(k.kept) == 2*k.max {
		half := k.kept[:0]
		for i := 0; i < len(k.kept); i += 2 {
			half = append(half, k.kept[i])
		}
		k.kept, k.stride = half, 2*k.stride
		if (k.n-1)%k.stride != 0 {
			return
		}
	}
	k.kept = append(k.kept, sampledRow(clustering, size, r))
}

// take returns the kept rows. rows is the total number of rows.
func (k *rowKeeper) take(rows float64) []SampledRow {
	for i := range k.kept {
		k.kept[i].Weight = rows / float64(len(k.kept))
	}
	return k.kept
}

func sampledRow(clustering []byte, size int64, r *row.Row) SampledRow {
	written := int64(math.MinInt64)
	if r.Live {
		written = r.Liveness.Timestamp
	}
	for i := range r.Cells {
		written = max(written, r.Cells[i].Timestamp)
	}
	return SampledRow{Clustering: bytes.Clone(clustering), Bytes: int32(size), Values: int32(len(r.Cells)),
		Written: written}
}

// stratify estimates a partition of which only the beginning has been read. It estimates the size from the bytes on
// disk and samples rows at several positions.
func (v *sampler) stratify(p *SampledPartition) error {
	d := depth{v: v, p: p, lower: keys.AppendRow(nil, v.span.Table, p.Token, p.Key, nil)}
	if err := d.ends(); err != nil || bytes.Compare(d.first, d.last) >= 0 {
		return err
	}
	whole, err := d.disk(keys.After(keys.AppendPartition(nil, v.span.Table, p.Token, p.Key)))
	if err != nil {
		return err
	}
	part, err := d.diskTo(p.Kept[len(p.Kept)-1].Clustering)
	if err != nil {
		return err
	}
	if part == 0 || whole <= part {
		return v.readOn(p) // the partition is in the memtable
	}
	statics := float64(p.StaticBytes)
	scale := float64(whole) / float64(part)
	p.Bytes, p.Rows, p.Values = (p.Bytes-statics)*scale+statics, p.Rows*scale, p.Values*scale
	return d.sample(whole)
}

// readOn reads a partition that is in the memtable, and therefore has no meaningful size on disk. If the partition is
// too large, its reported size is a lower bound.
func (v *sampler) readOn(p *SampledPartition) error {
	w := wholeVisitor{p: *p, keeper: rowKeeper{max: v.o.RowsKept}, left: &v.memory}
	w.p.Rows, w.p.Bytes, w.p.Values = 0, float64(p.StaticBytes), 0
	c := command.Read{Table: v.span.Table, Key: p.Key, Token: p.Token, Now: v.o.Now, Statics: true}
	if t := v.s.lookupTable(v.span.Table).installed.Load(); t != nil {
		c.Dropped = t.Dropped
	}
	if err := v.s.reader.Read(v.ctx, &c, &w); err != nil || w.p.Rows < p.Rows {
		return err
	}
	w.p.Partial, w.p.Kept = w.cut, w.keeper.take(w.p.Rows)
	*p = w.p
	return nil
}

// wholeVisitor is a visitor that collects a single partition.
type wholeVisitor struct {
	p      SampledPartition
	keeper rowKeeper
	left   *int64
	cut    bool
}

func (w *wholeVisitor) Partition(_ token.Token, _ []byte, static *row.Row) (command.Step, error) {
	if static != nil {
		w.p.Values += float64(len(static.Cells))
	}
	return command.More, nil
}

func (w *wholeVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if *w.left <= 0 {
		w.cut = true
		return command.Stop, nil
	}
	*w.left -= w.p.row(&w.keeper, clustering, r)
	return command.More, nil
}

// depth maps numbers to clustering keys of a partition.
type depth struct {
	v           *sampler
	p           *SampledPartition
	lower       []byte
	first, last []byte
	common      int
}

// ends finds the first and the last clustering key.
func (d *depth) ends() error {
	for _, reversed := range []bool{false, true} {
		w := rowVisitor{max: 1}
		if err := d.read(&w, nil, reversed); err != nil || len(w.rows) == 0 {
			return err
		}
		if reversed {
			d.last = w.rows[0].Clustering
		} else {
			d.first = w.rows[0].Clustering
		}
	}
	for d.common < min(len(d.first), len(d.last)) && d.first[d.common] == d.last[d.common] {
		d.common++
	}
	return nil
}

func (d *depth) read(w *rowVisitor, from []byte, reversed bool) error {
	c := command.Read{Table: d.v.span.Table, Key: d.p.Key, Token: d.p.Token, Reversed: reversed, Now: d.v.o.Now,
		Slices: []command.Slice{{Start: from}}, Limit: w.max}
	if t := d.v.s.lookupTable(d.v.span.Table).installed.Load(); t != nil {
		c.Dropped = t.Dropped
	}
	w.key = len(d.p.Key)
	return d.v.s.reader.Read(d.v.ctx, &c, w)
}

func (d *depth) disk(upper []byte) (uint64, error) {
	if bytes.Compare(upper, d.lower) <= 0 {
		return 0, nil
	}
	n, err := d.v.s.db.EstimateDiskUsage(d.lower, upper)
	return n, d.v.s.check(err)
}

func (d *depth) diskTo(clustering []byte) (uint64, error) {
	return d.disk(keys.AppendRow(nil, d.v.span.Table, d.p.Token, d.p.Key, clustering))
}

// at returns the clustering key that corresponds to a number.
func (d *depth) at(x uint64) []byte {
	out := slices.Clone(d.first[:d.common])
	for shift := 56; shift >= 0; shift -= 8 {
		out = append(out, byte(x>>shift))
	}
	return out
}

func number(b []byte) (x uint64) {
	for i := range 8 {
		x <<= 8
		if i < len(b) {
			x |= uint64(b[i])
		}
	}
	return x
}

// sample keeps rows at positions that are evenly spaced by the bytes on disk.
func (d *depth) sample(whole uint64) error {
	each := max(d.v.o.RowsKept/strata, 1)
	lo, hi := number(d.first[d.common:]), number(d.last[d.common:])
	var kept []SampledRow
	var rows, values float64
	for i := range strata {
		goal := uint64(float64(i) / strata * float64(whole))
		var err error
		if i > 0 {
			lo, err = search(lo, hi, func(x uint64) (bool, error) {
				n, err := d.diskTo(d.at(x))
				return n < goal, err
			})
			if err != nil {
				return err
			}
		}
		w := rowVisitor{max: each}
		from := d.at(lo)
		if i == 0 {
			from = nil
		}
		if err := d.read(&w, from, false); err != nil {
			return err
		}
		var size float64
		for j := range w.rows {
			size += float64(w.rows[j].Bytes)
		}
		if size == 0 {
			continue
		}
		weight := d.p.Bytes / strata / size // size of the stratum divided by the size of the read data
		for j := range w.rows {
			w.rows[j].Weight = weight
			rows += weight
			values += weight * float64(w.rows[j].Values)
		}
		kept = append(kept, w.rows...)
	}
	if len(kept) > 0 {
		d.p.Kept, d.p.Rows, d.p.Values = kept, rows, values
	}
	return nil
}

// rowVisitor keeps some rows of one partition.
type rowVisitor struct {
	max, key int
	rows     []SampledRow
}

func (w *rowVisitor) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (w *rowVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	w.rows = append(w.rows, sampledRow(clustering, int64(w.key+len(clustering)+r.Size()), r))
	if len(w.rows) >= w.max {
		return command.Stop, nil
	}
	return command.More, nil
}
