// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"errors"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// thresholdShare is the maximum share of the split limits that a merge candidate may use.
const thresholdShare = 0.4

// Candidate is a partition whose size and load are far below the split limits according to the leader.
type Candidate struct {
	Partition topology.PartitionID
	// Epoch is the epoch of the partition's span. Measurements of another span are ignored.
	Epoch uint64
	Bytes uint64
	// Load is the load in request units per second.
	Load float64
	// SmallFor and IdleFor are the times for which the size and the load have been low.
	SmallFor, IdleFor time.Duration
}

// belowThresholds reports whether a size and a load are far below the split limits.
func belowThresholds(bytes, sizeLimit uint64, load, loadLimit float64) (small, idle bool) {
	return float64(bytes) <= thresholdShare*float64(split.SizeThreshold(sizeLimit)), loadLimit <= 0 ||
		load <= thresholdShare*loadLimit
}

// IdleTracker tracks the time for which a partition has been small and idle. The zero value has no measurements.
type IdleTracker struct {
	smallSince, idleSince time.Time
}

// Observe records a measurement and returns the times for which the size and the load have been low.
func (c *IdleTracker) Observe(now time.Time, bytes, sizeLimit uint64, load, loadLimit float64) (small,
	idle time.Duration) {
	isSmall, isIdle := belowThresholds(bytes, sizeLimit, load, loadLimit)
	return track(&c.smallSince, now, isSmall), track(&c.idleSince, now, isIdle)
}

// track records whether a condition holds now, and returns the time for which the condition has held.
func track(began *time.Time, now time.Time, is bool) time.Duration {
	switch {
	case !is:
		*began = time.Time{}
		return 0
	case began.IsZero() || now.Before(*began):
		*began = now
	}
	return now.Sub(*began)
}

const (
	// candidatesVersion is the first byte of an encoded list.
	candidatesVersion = 2
	// candidatesMax is the maximum number of partitions in one list.
	candidatesMax = 1 << 14
)

var errCandidates = errors.New("malformed list of merge candidates")

// Candidates is an encodable list of candidates.
type Candidates []Candidate

// AppendBinary implements encoding.BinaryAppender. It appends about 20 bytes per partition and omits partitions beyond
// the first 16,384.
func (list Candidates) AppendBinary(dst []byte) ([]byte, error) {
	list = list[:min(len(list), candidatesMax)]
	w := codec.Writer(append(dst, candidatesVersion))
	w.Uint(uint64(len(list)))
	for i := range list {
		q := &list[i]
		w.Uint(uint64(q.Partition))
		w.Uint(q.Epoch)
		w.Uint(q.Bytes)
		w.Uint(uint64(math.Ceil(max(q.Load, 0))))
		w.Uint(uint64(q.SmallFor / time.Millisecond))
		w.Uint(uint64(q.IdleFor / time.Millisecond))
	}
	return w, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. The precision of times is a millisecond, and loads are rounded
// up to whole request units per second.
func (list *Candidates) UnmarshalBinary(b []byte) error {
	const most = math.MaxInt64 / uint64(time.Millisecond)
	r := codec.NewReader(b, errCandidates)
	if r.Byte() != candidatesVersion {
		return errCandidates
	}
	*list = make(Candidates, r.Count(6))
	for i := range *list {
		(*list)[i] = Candidate{Partition: topology.PartitionID(r.Uint()), Epoch: r.Uint(), Bytes: r.Uint(),
			Load:     float64(r.Uint()),
			SmallFor: time.Duration(r.UpTo(most)) * time.Millisecond,
			IdleFor:  time.Duration(r.UpTo(most)) * time.Millisecond}
	}
	return r.End()
}
