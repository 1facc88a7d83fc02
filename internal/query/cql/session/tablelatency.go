// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// Operation is a kind of operation on a table.
type Operation uint8

// These are the operations. A Read specifies partition keys, whereas a Scan does not.
const (
	Read Operation = iota
	Scan
	Write
	operations
)

// LatencySummary summarizes the latencies of an operation since the node started.
type LatencySummary struct {
	Count                uint64
	Median, P99, Slowest time.Duration
	// PerSecond is the mean rate over the last minute.
	PerSecond float64
}

// A histogram has one bucket per microsecond up to 8 us and four buckets per power of two from 8 us to 2^26 us. The
// last bucket has no upper bound. The relative error is at most 19 %.
const (
	exactBuckets     = 8
	histogramBuckets = exactBuckets + 4*23 + 1
)

// latencyHistogram counts the durations of one operation on one table. It is safe for concurrent use.
type latencyHistogram struct {
	buckets [histogramBuckets]atomic.Uint64
	slowest atomic.Int64 // us
	// minute is the most recent minute with a recorded duration. thisMinute is the count for this minute. lastMinute is
	// the count for the preceding minute.
	minute                 atomic.Int64
	thisMinute, lastMinute atomic.Int64
}

func bucketOf(us uint64) int {
	if us < exactBuckets {
		return int(us)
	}
	log := bits.Len64(us) - 1 // 3 or more
	return min(exactBuckets+(log-3)*4+int(us>>(log-2)&3), histogramBuckets-1)
}

// bucketEnd returns the largest duration of a bucket, in microseconds.
func bucketEnd(i int) uint64 {
	if i < exactBuckets {
		return uint64(i)
	}
	log, quarter := (i-exactBuckets)/4+3, uint64((i-exactBuckets)%4)
	return 1<<log + (quarter+1)<<(log-2) - 1
}

func (s *latencyHistogram) record(took time.Duration, at time.Time) {
	us := max(took.Microseconds(), 0)
	s.buckets[bucketOf(uint64(us))].Add(1)
	for old := s.slowest.Load(); us > old && !s.slowest.CompareAndSwap(old, us); old = s.slowest.Load() {
	}
	minute := at.Unix() / 60
	if old := s.minute.Load(); minute > old && s.minute.CompareAndSwap(old, minute) {
		last := s.thisMinute.Swap(0)
		if minute > old+1 {
			last = 0
		}
		s.lastMinute.Store(last)
	}
	s.thisMinute.Add(1)
}

// LatencyHistogram is a histogram in the format that nodes exchange.
type LatencyHistogram struct {
	// Counts maps buckets to counts. Empty buckets are omitted.
	Counts map[int]uint64 `json:"counts,omitempty"`
	// Slowest is the longest duration in microseconds. PerSecond is the mean rate over the last minute.
	Slowest   int64   `json:"slowest,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
}

// Add adds the counts of another node.
func (s *LatencyHistogram) Add(o *LatencyHistogram) {
	if s.Counts == nil {
		s.Counts = map[int]uint64{}
	}
	for i, n := range o.Counts {
		s.Counts[i] += n
	}
	s.Slowest, s.PerSecond = max(s.Slowest, o.Slowest), s.PerSecond+o.PerSecond
}

// Summary returns the latency summary. It ignores unknown buckets.
func (s *LatencyHistogram) Summary() (out LatencySummary) {
	var counts [histogramBuckets]uint64
	for i := range counts {
		counts[i] = s.Counts[i]
		out.Count += counts[i]
	}
	slowest := uint64(max(s.Slowest, 0))
	quantile := func(q float64) time.Duration {
		need, seen := uint64(math.Ceil(q*float64(out.Count))), uint64(0)
		for i, n := range counts {
			if seen += n; n > 0 && seen >= need {
				return time.Duration(min(bucketEnd(i), slowest)) * time.Microsecond
			}
		}
		return 0
	}
	out.Median, out.P99, out.Slowest = quantile(0.5), quantile(0.99), time.Duration(slowest)*time.Microsecond
	out.PerSecond = s.PerSecond
	return out
}

// export returns the histogram in the format that nodes exchange.
func (s *latencyHistogram) export(at time.Time) LatencyHistogram {
	out := LatencyHistogram{Counts: map[int]uint64{}, Slowest: s.slowest.Load()}
	for i := range s.buckets {
		if n := s.buckets[i].Load(); n > 0 {
			out.Counts[i] = n
		}
	}
	minute, into := at.Unix()/60, float64(at.Unix()%60)/60
	now, before := s.thisMinute.Load(), s.lastMinute.Load()
	switch s.minute.Load() {
	case minute:
	case minute - 1:
		now, before = 0, now
	default:
		now, before = 0, 0
	}
	out.PerSecond = (float64(now) + float64(before)*(1-into)) / 60
	return out
}

// tableHistograms holds the histograms of a table. record creates a histogram for the first operation.
type tableHistograms [operations]atomic.Pointer[latencyHistogram]

// tableLatencies holds the histograms of all tables with recorded operations.
type tableLatencies struct {
	mu     sync.RWMutex
	tables map[uint32]*tableHistograms
}

// record adds an operation to the histogram of each table.
func (l *tableLatencies) record(tables []*schema.Table, op Operation, took time.Duration, at time.Time) {
	for _, t := range tables {
		of := l.find(t.ID)
		if of == nil {
			of = l.add(t.ID)
		}
		s := of[op].Load()
		if s == nil {
			of[op].CompareAndSwap(nil, new(latencyHistogram))
			s = of[op].Load()
		}
		s.record(took, at)
	}
}

func (l *tableLatencies) find(table uint32) *tableHistograms {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tables[table]
}

func (l *tableLatencies) add(table uint32) *tableHistograms {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tables == nil {
		l.tables = map[uint32]*tableHistograms{}
	}
	of := l.tables[table]
	if of == nil {
		of = new(tableHistograms)
		l.tables[table] = of
	}
	return of
}

// keep removes the histograms of tables that the schema does not contain.
func (l *tableLatencies) keep(s *schema.Schema) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.tables {
		if s.TableByID(id) == nil {
			delete(l.tables, id)
		}
	}
}

// TableHistogram returns the latencies of an operation on a table. The histogram covers the requests that this node has
// coordinated.
func (e *Engine) TableHistogram(table uint32, op Operation) LatencyHistogram {
	of := e.tableLatencies.find(table)
	if of == nil || of[op].Load() == nil {
		return LatencyHistogram{}
	}
	return of[op].Load().export(e.opts.Clock.Wall())
}
