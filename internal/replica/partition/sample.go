// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math/bits"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// sampleCount is how many samples are kept.
	sampleCount = 512
	// sampleMost is how many a single request has: a large one is not all that there is.
	sampleMost = 32
)

// samples are places on the ring that request units were spent at, the newest sampleCount of them. What is spent is
// cut into stretches of equal length, and of each of them one unit is drawn: the more a place takes, the more samples
// it has. They are there only while somebody wants to know: an idle partition pays nothing for them.
type samples struct {
	// every is the length of a stretch, spent what was spent since they are there; both in ru.Units.
	every, spent atomic.Int64
	next         atomic.Uint32
	place        [sampleCount]atomic.Uint64
}

// sample notes the place that units were spent at, as often as one of them was drawn.
func (r *Replica) sample(u ru.Units, tok token.Token) {
	s := r.samples.Load()
	if s == nil || u <= 0 {
		return
	}
	every, end := s.every.Load(), s.spent.Add(int64(u))
	begin := end - int64(u)
	for i := max(begin, end-sampleMost*every) / every; i*every < end; i++ {
		if at := i*every + drawn(i, every); begin <= at && at < end {
			s.place[(s.next.Add(1)-1)%sampleCount].Store(tok.Position())
		}
	}
}

// drawn is which unit of a stretch is sampled: another one in each, because clients that take turns would always be
// caught in the same place.
func drawn(stretch, every int64) int64 {
	x := uint64(stretch) * 0x9e3779b97f4a7c15 // the finalizer of splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	at, _ := bits.Mul64(x^x>>31, uint64(every))
	return int64(at)
}

// Sample has places sampled from now on, one for each stretch of so many units, or no more if every is 0: samples of
// before are forgotten then.
func (r *Replica) Sample(every ru.Units) {
	s := r.samples.Load()
	switch {
	case every <= 0:
		if s != nil {
			r.samples.Store(nil)
		}
	case s == nil:
		s = new(samples)
		s.every.Store(int64(every))
		r.samples.Store(s)
	default:
		s.every.Store(int64(every))
	}
}

// Places returns the places that were sampled and that the replica still holds, in no order.
func (r *Replica) Places() []uint64 {
	s := r.samples.Load()
	if s == nil {
		return nil
	}
	tokens := r.state.Load().span.Tokens()
	out := make([]uint64, 0, sampleCount)
	for i := range min(s.next.Load(), sampleCount) {
		if at := s.place[i].Load(); tokens.Contains(token.AtPosition(at)) {
			out = append(out, at)
		}
	}
	return out
}
