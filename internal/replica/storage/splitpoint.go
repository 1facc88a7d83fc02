// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// ErrOneToken means that a span cannot be split between two tokens, because all of its rows have the same token.
var ErrOneToken = errors.New("all rows have the same token, so the partition cannot be split")

const (
	// splitTokensMax is the maximum number of tokens whose sizes FindSplitPoint adds up individually. walkMax is the
	// maximum number of bytes on disk of a span that FindSplitPoint reads. Large rows do not count, because they are
	// stored in separate files and are not read.
	splitTokensMax = 1 << 18
	walkMax        = 64 << 20
)

// SplitPoint is a position that divides a span in two.
type SplitPoint struct {
	// At is the start of a token. All positions before At are in the left half.
	At keys.Position
	// Left and Right are the numbers of bytes on both sides.
	Left, Right uint64
	// LargestToken is the token with the most bytes, and LargestTokenBytes is its size. If a span cannot be divided
	// evenly, this token is the reason.
	LargestToken      token.Token
	LargestTokenBytes uint64
}

// FindSplitPoint returns the start of a token that leaves about the same number of bytes on both sides. A small span is
// read completely. For a span with more than 64 MiB on disk, excluding large rows, or 262,144 tokens, it uses the sizes
// of tables on disk. It assumes that the large rows of a table are spread evenly over the table's keys. If the span has
// no rows, the result is the middle of the tokens. With ErrOneToken, the result contains the token of all rows.
func (s *Statistics) FindSplitPoint(span keys.Span) (h SplitPoint, err error) {
	onDisk, err := s.DiskBytes(span)
	if err != nil {
		return h, err
	}
	most := uint64(math.MaxUint64)
	if onDisk > walkMax {
		if most = walkMax; s.db.Metrics().BlobFiles.ValueSize < onDisk/4 {
			return s.splitPointOnDisk(span)
		}
	}
	tokens, sizes, all, err := s.tokenSizes(span, most)
	if err != nil {
		return h, err
	}
	if !all {
		return s.splitPointOnDisk(span)
	}
	if len(tokens) == 0 {
		h.At, err = middleOf(span.Tokens())
		return h, err
	}
	var total uint64
	for i, n := range sizes {
		total += n
		if n > h.LargestTokenBytes {
			h.LargestToken, h.LargestTokenBytes = token.AtPosition(tokens[i]), n
		}
	}
	if len(tokens) == 1 {
		h.Left = total
		return h, ErrOneToken
	}
	before, off := uint64(0), total
	for i := 1; i < len(tokens); i++ {
		before += sizes[i-1]
		if d := max(2*before, total) - min(2*before, total); d < off {
			off = d
			h.At, h.Left, h.Right = keys.Position{Ring: tokens[i]}, before, total-before
		}
	}
	return h, nil
}

// Size returns the size of a span on disk, after compression, including garbage that has not been compacted. Memtables
// are excluded, unless they can affect whether the size reaches enough. If they can, a span of less than 64 MiB is
// read.
func (s *Statistics) Size(span keys.Span, enough uint64) (uint64, error) {
	onDisk, err := s.DiskBytes(span)
	if err != nil || onDisk >= enough || enough > walkMax {
		return onDisk, err
	}
	most := onDisk + s.db.Metrics().MemTable.Size
	if most < enough {
		return onDisk, nil
	}
	_, sizes, _, err := s.tokenSizes(span, math.MaxUint64)
	var read uint64
	for _, n := range sizes {
		read += n
	}
	return min(max(read, onDisk), most), err
}

// KeyAt returns the key of the first logical partition at a token, or nil.
func (s *Statistics) KeyAt(table uint32, at token.Token) ([]byte, error) {
	span := TokenOnly(table, at)
	lower, upper := span.Bounds()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, s.check(err)
	}
	var key []byte
	if it.First() {
		if p, ok := keys.Parse(it.Key()); ok {
			key = slices.Clone(p.Key)
		}
	}
	return key, s.check(errors.Join(it.Error(), it.Close()))
}

// TokenOnly returns the span of one token.
func TokenOnly(table uint32, t token.Token) keys.Span {
	at := t.Position()
	return keys.TokenSpan(table, token.Range{Begin: at, Limit: at + 1})
}

// tokenSizes returns the stored bytes of each token of a span. all is false if the span has too many tokens, or more
// than most bytes, excluding large rows. For a row in a separate file, only the size is read.
func (s *Statistics) tokenSizes(span keys.Span, most uint64) (tokens, sizes []uint64, all bool, err error) {
	lower, upper := span.Bounds()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, nil, false, s.check(err)
	}
	all = true
	read := uint64(0)
	for ok := it.First(); ok; ok = it.Next() {
		if read > most {
			all = false
			break
		}
		p, ok := keys.Parse(it.Key())
		if !ok {
			continue
		}
		ring := p.Position().Ring
		if n := len(tokens); n == 0 || tokens[n-1] != ring {
			if n == splitTokensMax {
				all = false
				break
			}
			tokens, sizes = append(tokens, ring), append(sizes, 0)
		}
		value := it.LazyValue()
		read += uint64(len(it.Key()) + len(value.ValueOrHandle))
		sizes[len(sizes)-1] += uint64(len(it.Key()) + value.Len())
	}
	return tokens, sizes, all, s.check(errors.Join(it.Error(), it.Close()))
}

// splitPointOnDisk divides a span by the sizes of its tables, excluding memtables.
func (s *Statistics) splitPointOnDisk(span keys.Span) (h SplitPoint, err error) {
	lower, upper := span.Bounds()
	total, err := s.db.EstimateDiskUsage(lower, upper)
	if err != nil {
		return h, s.check(err)
	}
	r := span.Tokens()
	size := r.Limit - r.Begin - 1 // the last token, counted from the first
	before := func(tokens uint64) (uint64, error) {
		at := keys.AppendToken(keys.AppendTable(nil, span.Table), token.AtPosition(r.Begin+tokens))
		n, err := s.db.EstimateDiskUsage(lower, at)
		return min(n, total), s.check(err)
	}
	// The size before lo is less than half, and the size before hi is at least half.
	lo, hi, atLo, atHi := uint64(0), size, uint64(0), total
	for hi-lo > 1 && total > 0 {
		mid := lo + (hi-lo)/2
		n, err := before(mid)
		if err != nil {
			return h, err
		}
		if n < total/2 {
			lo, atLo = mid, n
		} else {
			hi, atHi = mid, n
		}
	}
	h.LargestToken, h.LargestTokenBytes = token.AtPosition(r.Begin+lo), atHi-atLo
	switch {
	case total == 0 || hi == size && lo == 0:
		h.At, err = middleOf(r)
		h.Left, h.Right = total/2, total-total/2
	case hi == size || lo > 0 && total-2*atLo < 2*atHi-total:
		h.At, h.Left, h.Right = keys.Position{Ring: r.Begin + lo}, atLo, total-atLo
	default:
		h.At, h.Left, h.Right = keys.Position{Ring: r.Begin + hi}, atHi, total-atHi
	}
	return h, err
}

// middleOf returns the middle of a range of tokens.
func middleOf(r token.Range) (keys.Position, error) {
	half := (r.Limit - r.Begin) / 2
	if r.Limit == r.Begin { // the whole ring
		half = 1 << 63
	}
	if half == 0 {
		return keys.Position{}, ErrOneToken
	}
	return keys.Position{Ring: r.Begin + half}, nil
}
