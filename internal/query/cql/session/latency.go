// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// StatementKind groups statements with comparable latency.
type StatementKind uint8

// These are the statement kinds that metrics distinguish.
const (
	KindSelect StatementKind = iota
	KindModify
	KindConditional
	KindBatch
	KindSchema
	KindOther
	statementKinds
)

var statementKindNames = [statementKinds]string{"select", "modify", "conditional", "batch", "schema", "other"}

// String returns the name that metrics use.
func (k StatementKind) String() string { return statementKindNames[k] }

// latencyBuckets is the number of buckets. The upper bounds of the buckets are 16 us, 32 us, and so on up to
// 2^(latencyBuckets+2) us. The last bucket has no upper bound.
const latencyBuckets = 21

// Latency is a histogram of durations. The zero value is an empty histogram. Latency is safe for concurrent use.
type Latency struct {
	buckets [latencyBuckets]atomic.Uint64
	micros  atomic.Uint64
	errors  atomic.Uint64
}

func (l *Latency) record(d time.Duration, failed bool) {
	us := uint64(max(d.Microseconds(), 0))
	i := 0
	if us > 16 {
		i = min(bits.Len64(us-1)-4, latencyBuckets-1)
	}
	l.buckets[i].Add(1)
	l.micros.Add(us)
	if failed {
		l.errors.Add(1)
	}
}

// Snapshot returns the number of durations, their sum in seconds, and the number of failed statements. cumulative
// contains the cumulative counts by upper bound in seconds.
func (l *Latency) Snapshot() (count uint64, seconds float64, failed uint64, cumulative map[float64]uint64) {
	cumulative = make(map[float64]uint64, latencyBuckets)
	for i := range l.buckets {
		count += l.buckets[i].Load()
		if i < latencyBuckets-1 {
			cumulative[float64(uint64(16)<<i)/1e6] = count
		}
	}
	return count, float64(l.micros.Load()) / 1e6, l.errors.Load(), cumulative
}
