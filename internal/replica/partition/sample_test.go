// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestSamples proves that samples are a fair picture of requests, also where clients take turns with their keys; that
// the old ones make room, that nothing is kept where nobody asked, and nothing told that the replica has given away.
func TestSamples(t *testing.T) {
	r := &Replica{host: &Host{}}
	r.state.Store(&state{})
	r.sample(0, 1)
	if len(r.Places()) != 0 {
		t.Error("samples that nobody asked for")
	}
	for _, turns := range []uint64{2, 3, 32, 64, 100, 128} {
		r.Sample(false)
		r.Sample(true)
		for n := range uint64(1 << 17) {
			r.sample(n, token.Token(n%turns))
		}
		places := r.Places()
		of := map[uint64]int{}
		for _, p := range places {
			of[p]++
		}
		if len(places) != sampleCount || len(of) != int(turns) {
			t.Errorf("%d samples have %d of %d places", len(places), len(of), turns)
		}
		for p, n := range of {
			if n > 3*sampleCount/int(turns) {
				t.Errorf("place %x of %d has %d of %d samples", p, turns, n, len(places))
			}
		}
	}
	r.state.Store(&state{span: topology.Span{Begin: topology.Position{Ring: token.Token(50).Position()}}})
	for _, p := range r.Places() {
		if token.AtPosition(p) < 50 {
			t.Fatalf("a place that went to another partition: %x", p)
		}
	}
	if testing.AllocsPerRun(1000, func() { r.sample(0, 1) }) != 0 {
		t.Error("a sample is allocated")
	}
}

// BenchmarkSample is what sampling costs a request.
func BenchmarkSample(b *testing.B) {
	for name, on := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			r := &Replica{host: &Host{}}
			r.Sample(on)
			n := uint64(0)
			for b.Loop() {
				n++
				r.sample(n, token.Token(n))
			}
		})
	}
}
