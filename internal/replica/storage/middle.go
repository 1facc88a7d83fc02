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

// ErrOneToken says that a span cannot be cut between two tokens: all it holds has one.
var ErrOneToken = errors.New("all rows have one token, and there is no place between them")

const (
	// middleMax bounds the tokens whose sizes Middle adds up one by one, walkMax the bytes on disk of a span that is
	// read for it: of one with large rows, which stand apart and are not read, those of what is beside the keys.
	middleMax = 1 << 18
	walkMax   = 64 << 20
)

// Halves says how a span is cut in two.
type Halves struct {
	// At begins a token: what is before it is the left half.
	At keys.Position
	// Left and Right are the bytes on both sides.
	Left, Right uint64
	// Widest is a token with more bytes than others have, WidestBytes how many. Where a span cannot be cut well it is
	// in the way.
	Widest      token.Token
	WidestBytes uint64
}

// Middle is the beginning of a token that leaves about as many bytes of a span before it as after it. A small span is
// read as a whole; of one with more than 64 MiB on disk, large rows aside, or 262,144 tokens the sizes of tables on
// disk are asked for. A table counts the large rows that it names as if they were spread over its keys.
// Without any rows it is the middle of the tokens. ErrOneToken comes with the token that has it all.
func (s *Statistics) Middle(span keys.Span) (h Halves, err error) {
	onDisk, err := s.DiskBytes(span)
	if err != nil {
		return h, err
	}
	most := uint64(math.MaxUint64)
	if onDisk > walkMax {
		if most = walkMax; s.db.Metrics().BlobFiles.ValueSize < onDisk/4 {
			return s.middleOnDisk(span)
		}
	}
	tokens, sizes, all, err := s.weigh(span, most)
	if err != nil {
		return h, err
	}
	if !all {
		return s.middleOnDisk(span)
	}
	if len(tokens) == 0 {
		h.At, err = middleOf(span.Tokens())
		return h, err
	}
	var total uint64
	for i, n := range sizes {
		total += n
		if n > h.WidestBytes {
			h.Widest, h.WidestBytes = token.AtPosition(tokens[i]), n
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

// Size is how many bytes a span takes on disk, which is after compression, garbage included that was not compacted
// yet. What is only in memtables does not count, but where it can make a difference to whether there are enough: then a
// span of less than 64 MiB is read.
func (s *Statistics) Size(span keys.Span, enough uint64) (uint64, error) {
	onDisk, err := s.DiskBytes(span)
	if err != nil || onDisk >= enough || enough > walkMax {
		return onDisk, err
	}
	most := onDisk + s.db.Metrics().MemTable.Size
	if most < enough {
		return onDisk, nil
	}
	_, sizes, _, err := s.weigh(span, math.MaxUint64)
	var read uint64
	for _, n := range sizes {
		read += n
	}
	return min(max(read, onDisk), most), err
}

// KeyAt is the key of the first logical partition at a token, nil if there is none.
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

// TokenOnly is the span of one token.
func TokenOnly(table uint32, t token.Token) keys.Span {
	at := t.Position()
	return keys.TokenSpan(table, token.Range{Begin: at, Limit: at + 1})
}

// weigh adds up the bytes of each token of a span, as they are stored; all is false if there are too many tokens, or
// more than most bytes beside the keys. Of a row that stands apart the size is read, and not the row.
func (s *Statistics) weigh(span keys.Span, most uint64) (tokens, sizes []uint64, all bool, err error) {
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
			if n == middleMax {
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

// middleOnDisk halves a span by the sizes of its tables; what is only in memtables does not count.
func (s *Statistics) middleOnDisk(span keys.Span) (h Halves, err error) {
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
	// What is before lo is less than half, what is before hi is not.
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
	h.Widest, h.WidestBytes = token.AtPosition(r.Begin+lo), atHi-atLo
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

// middleOf is the middle of a range of tokens.
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
