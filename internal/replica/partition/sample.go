// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math/bits"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// sampleCount is the number of samples that are kept.
	sampleCount = 512
	// sampleMost is the maximum number of samples of one request. The limit prevents a large request from replacing all
	// other samples.
	sampleMost = 32
)

// samples holds the newest sampleCount ring positions at which request units were spent. The spent units are divided
// into intervals of equal length, and one unit of each interval is sampled. A position with a higher load therefore has
// more samples. Samples are taken only while sampling is enabled.
type samples struct {
	// every is the length of an interval. spent is the number of units spent since sampling started.
	every, spent atomic.Int64
	next         atomic.Uint32
	place        [sampleCount]atomic.Uint64
}

// sample records the position of a request once for each of its sampled units.
func (l *Load) sample(u ru.Units, tok token.Token) {
	s := l.samples.Load()
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

// drawn returns the offset of the sampled unit in an interval. The offset varies between intervals, because otherwise a
// periodic load could always be sampled at the same position.
func drawn(stretch, every int64) int64 {
	x := uint64(stretch) * 0x9e3779b97f4a7c15 // the finalizer of splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	at, _ := bits.Mul64(x^x>>31, uint64(every))
	return int64(at)
}

// SetSampling starts sampling with one sample for each interval of the given length. If every is 0, it stops sampling.
// SetSampling drops existing samples.
func (l *Load) SetSampling(every ru.Units) {
	s := l.samples.Load()
	switch {
	case every <= 0:
		if s != nil {
			l.samples.Store(nil)
		}
	case s == nil:
		s = new(samples)
		s.every.Store(int64(every))
		l.samples.Store(s)
	default:
		s.every.Store(int64(every))
	}
}

// SampledPositions returns the sampled positions in the replica's span, in no particular order.
func (l *Load) SampledPositions() []uint64 {
	s := l.samples.Load()
	if s == nil {
		return nil
	}
	tokens := l.state.Load().span.Tokens()
	out := make([]uint64, 0, sampleCount)
	for i := range min(s.next.Load(), sampleCount) {
		if at := s.place[i].Load(); tokens.Contains(token.AtPosition(at)) {
			out = append(out, at)
		}
	}
	return out
}
