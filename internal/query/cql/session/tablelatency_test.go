// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLatencyHistogram checks the accuracy of buckets and quantiles. The end of a bucket must not exceed any duration
// in the bucket by more than a fifth. A quantile must not exceed the slowest duration.
func TestLatencyHistogram(t *testing.T) {
	for i := range histogramBuckets - 1 {
		if end := bucketEnd(i); bucketOf(end) != i || bucketOf(end+1) != i+1 {
			t.Fatalf("bucket %d ends at %d us, which is in %d, and the next in %d", i, end, bucketOf(end), bucketOf(end+1))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var s latencyHistogram
		at := time.Unix(6e8, 0)
		all := rapid.SliceOfN(rapid.Int64Range(0, 1<<26-1), 1, 300).Draw(t, "us")
		for _, us := range all {
			s.record(time.Duration(us)*time.Microsecond, at)
		}
		slices.Sort(all)
		got := summaryOf(&s, at)
		if got.Count != uint64(len(all)) || got.Slowest.Microseconds() != all[len(all)-1] {
			t.Fatalf("%+v of %v", got, all)
		}
		for q, d := range map[float64]time.Duration{0.5: got.Median, 0.99: got.P99} {
			exact := all[max(int(q*float64(len(all))+0.999999)-1, 0)]
			if us := d.Microseconds(); us < exact || float64(us) > float64(exact)*1.25+1 {
				t.Fatalf("quantile %v is %d us, was %d, of %v", q, us, exact, all)
			}
		}
	})
}

// TestPerSecond checks that the rate is always the mean of the last minute. If no requests arrive, the rate must become
// 0.
func TestPerSecond(t *testing.T) {
	var s latencyHistogram
	at := time.Unix(6e8, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		for range 50 {
			s.record(time.Duration(rng.IntN(100))*time.Microsecond, at)
		}
		at = at.Add(time.Second)
	}
	if got := summaryOf(&s, at).PerSecond; got < 48 || got > 52 {
		t.Errorf("%v a second, want 50", got)
	}
	if got := summaryOf(&s, at.Add(30*time.Second)).PerSecond; got < 15 || got > 35 {
		t.Errorf("half a minute later %v a second, want about 25", got)
	}
	if got := summaryOf(&s, at.Add(3*time.Minute)).PerSecond; got != 0 {
		t.Errorf("three minutes later %v a second", got)
	}
}

func BenchmarkTableLatency(b *testing.B) {
	var s latencyHistogram
	at := time.Unix(6e8, 0)
	for b.Loop() {
		s.record(300*time.Microsecond, at)
	}
}

func summaryOf(s *latencyHistogram, at time.Time) LatencySummary {
	told := s.export(at)
	return told.Summary()
}
