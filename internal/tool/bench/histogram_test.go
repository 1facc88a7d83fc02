// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestHistogramError checks that the middle of a bucket is within 1.6% of every value in the bucket.
func TestHistogramError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "micros")
		m := middle(bucket(v))
		if diff := math.Abs(m - float64(v)); diff > 0.016*float64(v)+0.5 {
			t.Errorf("%d is counted as %.1f", v, m)
		}
	})
}

// TestQuantiles checks the quantiles of a known distribution.
func TestQuantiles(t *testing.T) {
	var h, sum histogram
	for i := range int64(1000) {
		h.record(i + 1)
	}
	sum.add(&h)
	for q, want := range map[float64]float64{0: 1, 0.5: 500, 0.99: 990, 0.999: 1000} {
		if got := sum.quantile(q); math.Abs(got-want) > 0.016*want+1 {
			t.Errorf("quantile %v = %v, want about %v", q, got, want)
		}
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}
