// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// newDetachedReplica returns a replica without a store or a sequencer.
func newDetachedReplica() *Replica {
	r := new(Replica)
	r.init(&Host{}, 1)
	return r
}

// TestSamples checks that samples represent the spent units, even if clients alternate between keys, and that old
// samples are replaced. Samples may be taken only if requested, and all returned samples must be in the replica's span.
func TestSamples(t *testing.T) {
	r := newDetachedReplica()
	r.state.Store(&state{})
	r.load.sample(5*ru.Unit, 1)
	if len(r.Load().SampledPositions()) != 0 {
		t.Error("samples that nobody asked for")
	}
	for _, turns := range []uint64{2, 3, 32, 64, 100, 128} {
		r.Load().SetSampling(0)
		r.Load().SetSampling(64 * 5 * ru.Unit)
		for n := range uint64(1 << 17) {
			r.load.sample(5*ru.Unit, token.Token(n%turns))
		}
		places := r.Load().SampledPositions()
		of := map[uint64]int{}
		for _, p := range places {
			of[p]++
		}
		if len(places) != sampleCount || len(of) < int(turns)*95/100 {
			t.Errorf("%d samples have %d of %d places", len(places), len(of), turns)
		}
		for p, n := range of {
			if n > 3+3*sampleCount/int(turns) {
				t.Errorf("place %x of %d has %d of %d samples", p, turns, n, len(places))
			}
		}
	}
	r.state.Store(&state{span: topology.Span{Begin: topology.Position{Ring: token.Token(50).Position()}}})
	for _, p := range r.Load().SampledPositions() {
		if token.AtPosition(p) < 50 {
			t.Fatalf("a place that went to another partition: %x", p)
		}
	}
	if testing.AllocsPerRun(1000, func() { r.load.sample(ru.Unit, 1) }) != 0 {
		t.Error("a sample is allocated")
	}
}

// TestSamplesWeigh checks the fraction of samples at a position for all request prices and sampling intervals. It must
// equal the position's fraction of the spent units, within one tenth.
func TestSamplesWeigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newDetachedReplica()
		r.state.Store(&state{})
		prices := rapid.SliceOfN(rapid.Int64Range(1, int64(20*ru.Unit)), 2, 6).Draw(t, "prices")
		r.Load().SetSampling(ru.Units(rapid.Int64Range(slices.Max(prices)/8+1, int64(50*ru.Unit)).Draw(t, "every")))
		spent, all := make([]int64, len(prices)), int64(0)
		for all < int64(sampleCount)*r.load.samples.Load().every.Load() {
			for i, price := range prices {
				r.load.sample(ru.Units(price), token.Token(i))
				spent[i] += price
				all += price
			}
		}
		places := r.Load().SampledPositions()
		of := make([]int, len(prices))
		for _, p := range places {
			of[token.AtPosition(p)]++
		}
		for i := range prices {
			want := float64(spent[i]) / float64(all)
			if got := float64(of[i]) / float64(len(places)); math.Abs(got-want) > 0.1 {
				t.Fatalf("place %d has spent %.3f and has %.3f of %d samples", i, want, got, len(places))
			}
		}
	})
}

// BenchmarkSample measures the cost of sampling a request.
func BenchmarkSample(b *testing.B) {
	for name, every := range map[string]ru.Units{"off": 0, "on": 64 * ru.Unit} {
		b.Run(name, func(b *testing.B) {
			r := newDetachedReplica()
			r.Load().SetSampling(every)
			for b.Loop() {
				r.load.sample(ru.Unit, 1)
			}
		})
	}
}
