// SPDX-License-Identifier: Apache-2.0

package autosplit

import (
	"reflect"
	"testing"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestCombineSamples checks that samples of several replicas are used in proportion to their loads, regardless of the
// number of samples of each replica.
func TestCombineSamples(t *testing.T) {
	many := func(place uint64, n int) (out []uint64) {
		for range n {
			out = append(out, place)
		}
		return out
	}
	for _, c := range []struct {
		loads []float64
		lens  []int
		want  []int
	}{
		{[]float64{100}, []int{512}, []int{512}},
		{[]float64{100, 100}, []int{512, 128}, []int{128, 128}},
		{[]float64{0, 300, 100}, []int{0, 128, 128}, []int{0, 128, 43}},
		{[]float64{1, 1000}, []int{512, 128}, []int{0, 128}},
		{[]float64{50, 0}, []int{0, 0}, []int{0, 0}},
	} {
		var list []followerLoad
		for i := range c.loads {
			list = append(list, followerLoad{load: c.loads[i], tokens: many(uint64(i), c.lens[i])})
		}
		got := make([]int, len(c.want))
		for _, p := range combineSamples(list) {
			got[p]++
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("loads %v, %v samples: %v were taken, want %v", c.loads, c.lens, got, c.want)
		}
	}
}

// FuzzReport checks that an encoded report is decoded without loss, and that invalid input does not crash the node.
func FuzzReport(f *testing.F) {
	for _, r := range []FollowerReport{{}, {topology.NodeID{5}, []followerLoad{{partition: 7, epoch: 2, load: 1000,
		tokens: []uint64{1, 1 << 63}}, {partition: 8}}}} {
		b, _ := r.AppendBinary(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again FollowerReport
		if r.UnmarshalBinary(b) != nil {
			return
		}
		b, _ = r.AppendBinary(nil)
		if err := again.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%v became %v, %v", r, again, err)
		}
	})
}
