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
	// splitTokensMax is the maximum number of tokens of a span that FindSplitPoint reads. walkMax is the maximum size
	// of such a span on disk, in bytes. Large rows do not count, because FindSplitPoint does not read their files.
	splitTokensMax = 1 << 18
	walkMax        = 64 << 20
)

// SplitPoint is a position that divides a span in two.
type SplitPoint struct {
	// At is the start of a token. All positions before At are in the left half.
	At keys.Position
	// Left and Right are the numbers of bytes before and after At.
	Left, Right uint64
	// LargestToken is the token with the most bytes, and LargestTokenBytes is its size. A very large token can prevent
	// an even split.
	LargestToken      token.Token
	LargestTokenBytes uint64
}

// FindSplitPoint returns the token start that divides a span into two parts of about the same size. It reads a small
// span completely. If the span has more than 262,144 tokens or more than 64 MiB on disk, excluding large rows,
// FindSplitPoint uses the sizes of sstables. It assumes that the large rows of an sstable are spread evenly over the
// sstable's keys. If the span has no rows, the result is the middle of the tokens. If FindSplitPoint returns
// ErrOneToken, LargestToken is the token of all rows.
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

// Size returns the size of a span on disk, after compression, including garbage that has not been compacted. Size
// excludes memtables unless they can affect whether the size reaches enough. In this case, Size reads a span of less
// than 64 MiB.
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

// TokenOnly returns the span that contains only one token.
func TokenOnly(table uint32, t token.Token) keys.Span {
	at := t.Position()
	return keys.TokenSpan(table, token.Range{Begin: at, Limit: at + 1})
}

// tokenSizes returns the stored bytes of each token of a span. all is false if the span has too many tokens or more
// than most bytes, excluding large rows. tokenSizes reads only the sizes of large rows.
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

// splitPointOnDisk divides a span by the sizes of its sstables, excluding memtables.
func (s *Statistics) splitPointOnDisk(span keys.Span) (h SplitPoint, err error) {
	lower, upper := span.Bounds()
	total, err := s.db.EstimateDiskUsage(lower, upper)
	if err != nil {
		return h, s.check(err)
	}
	r := span.Tokens()
	size := r.Limit - r.Begin - 1 // offset of the last token
	before := func(tokens uint64) (uint64, error) {
		at := keys.AppendToken(keys.AppendTable(nil, span.Table), token.AtPosition(r.Begin+tokens))
		n, err := s.db.EstimateDiskUsage(lower, at)
		return min(n, total), s.check(err)
	}
	// The size before lo is less than half of the total, and the size before hi is at least half of the total.
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
