// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// sampleBits say how many requests there are to each that is sampled: 1 << sampleBits.
	sampleBits = 6
	// sampleCount is how many samples are kept.
	sampleCount = 512
	// scatter makes the distances between samples uneven: clients that take turns would always be caught in the same
	// place.
	scatter = 0x9e3779b97f4a7c15
)

// samples are places on the ring that requests were for, the newest sampleCount of them. They are there only while
// somebody wants to know: an idle partition pays nothing for it, and a busy one a store for 64 requests.
type samples struct {
	// all says that every request is sampled.
	all   bool
	next  atomic.Uint32
	place [sampleCount]atomic.Uint64
}

// sample notes a place if it is the turn of the n-th request of its kind.
func (r *Replica) sample(n uint64, tok token.Token) {
	if s := r.samples.Load(); s != nil && (n*scatter>>(64-sampleBits) == 0 || s.all) {
		s.place[(s.next.Add(1)-1)%sampleCount].Store(tok.Position())
	}
}

// Sample has places of requests sampled from now on, or no more. Samples of before are forgotten.
func (r *Replica) Sample(on bool) {
	if !on {
		r.samples.Store(nil)
	} else if r.samples.Load() == nil {
		r.samples.Store(&samples{all: r.host.opts.SampleAll})
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
