// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// ErrOneToken says that a span cannot be cut between two tokens: all it holds has one.
var ErrOneToken = errors.New("all rows have one token, and there is no place between them")

// middleMax bounds the tokens whose sizes Middle adds up one by one.
const middleMax = 1 << 18

// Middle is the beginning of a token that leaves about as many bytes of a span before it as after it. A span of up to
// 262,144 tokens is read as a whole; of a larger one the sizes of tables on disk are asked for. Without any rows it is
// the middle of the tokens.
func (s *Statistics) Middle(span keys.Span) (keys.Position, error) {
	tokens, sizes, all, err := s.weigh(span)
	if err != nil {
		return keys.Position{}, err
	}
	if !all {
		return s.middleOnDisk(span)
	}
	switch len(tokens) {
	case 0:
		return middleOf(span.Tokens())
	case 1:
		return keys.Position{}, ErrOneToken
	}
	total, before := int64(0), int64(0)
	for _, n := range sizes {
		total += n
	}
	best, off := 1, total
	for i := 1; i < len(tokens); i++ {
		before += sizes[i-1]
		if d := max(2*before-total, total-2*before); d < off {
			best, off = i, d
		}
	}
	return keys.Position{Ring: tokens[best]}, nil
}

// weigh adds up the bytes of each token of a span, as they are stored; all is false if there are too many.
func (s *Statistics) weigh(span keys.Span) (tokens []uint64, sizes []int64, all bool, err error) {
	lower, upper := span.Bounds()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, nil, false, s.check(err)
	}
	all = true
	for ok := it.First(); ok; ok = it.Next() {
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
		sizes[len(sizes)-1] += int64(len(it.Key()) + value.Len())
	}
	return tokens, sizes, all, s.check(errors.Join(it.Error(), it.Close()))
}

// middleOnDisk halves a span by the sizes of its tables; what is only in memtables does not count.
func (s *Statistics) middleOnDisk(span keys.Span) (keys.Position, error) {
	lower, upper := span.Bounds()
	total, err := s.db.EstimateDiskUsage(lower, upper)
	if err != nil {
		return keys.Position{}, s.check(err)
	}
	r := span.Tokens()
	begin, size := r.Begin, r.Limit-r.Begin-1 // the last token, counted from the first
	lo, hi := uint64(0), size
	for hi-lo > 1 && total > 0 {
		mid := lo + (hi-lo)/2
		at := keys.AppendToken(keys.AppendTable(nil, span.Table), token.AtPosition(begin+mid))
		n, err := s.db.EstimateDiskUsage(lower, at)
		if err != nil {
			return keys.Position{}, s.check(err)
		}
		if n < total/2 {
			lo = mid
		} else {
			hi = mid
		}
	}
	if hi == size {
		return middleOf(r)
	}
	return keys.Position{Ring: begin + hi}, nil
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
