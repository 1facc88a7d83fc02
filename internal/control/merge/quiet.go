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

// lowShare is how much of what would have it split a partition may have to be merged: 40 %.
const lowShare = 0.4

// Quiet is a partition that is far below what would have it split, as its leader has measured.
type Quiet struct {
	Partition topology.PartitionID
	// Epoch is that of the partition's span. What was measured of another span says nothing.
	Epoch uint64
	Bytes uint64
	// Load is in request units a second.
	Load float64
	// Small and Idle are for how long its bytes and its load have been low.
	Small, Idle time.Duration
}

// low reports whether bytes, and a load, are far below what would have a partition split.
func low(bytes, most uint64, load, limit float64) (small, idle bool) {
	return float64(bytes) <= lowShare*float64(split.Soft(most)), limit <= 0 || load <= lowShare*limit
}

// Calm follows for how long a partition has been low. The zero value knows nothing yet.
type Calm struct {
	small, idle time.Time
}

// Note notes what a partition takes at a moment, and returns for how long its bytes and its load have been low.
func (c *Calm) Note(now time.Time, bytes, most uint64, load, limit float64) (small, idle time.Duration) {
	isSmall, isIdle := low(bytes, most, load, limit)
	return since(&c.small, now, isSmall), since(&c.idle, now, isIdle)
}

// since notes whether something is so at a moment, and returns for how long it has been.
func since(began *time.Time, now time.Time, is bool) time.Duration {
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
	// toldVersion is the first byte of what AppendQuiet writes.
	toldVersion = 2
	// toldMax bounds the partitions of one answer: those of one node that can be merged.
	toldMax = 1 << 14
)

var errQuiet = errors.New("malformed list of quiet partitions")

// AppendQuiet encodes what a node tells of partitions, about 20 bytes for each; of more than 16,384 the rest is left
// out.
func AppendQuiet(dst []byte, list []Quiet) []byte {
	list = list[:min(len(list), toldMax)]
	w := codec.Writer(append(dst, toldVersion))
	w.Uint(uint64(len(list)))
	for i := range list {
		q := &list[i]
		w.Uint(uint64(q.Partition))
		w.Uint(q.Epoch)
		w.Uint(q.Bytes)
		w.Uint(uint64(math.Ceil(max(q.Load, 0))))
		w.Uint(uint64(q.Small / time.Millisecond))
		w.Uint(uint64(q.Idle / time.Millisecond))
	}
	return w
}

// DecodeQuiet reads what AppendQuiet wrote: times in whole milliseconds, loads rounded up to one request unit
// a second.
func DecodeQuiet(b []byte) ([]Quiet, error) {
	const most = math.MaxInt64 / uint64(time.Millisecond)
	r := codec.NewReader(b, errQuiet)
	if r.Byte() != toldVersion {
		return nil, errQuiet
	}
	list := make([]Quiet, r.Count(6))
	for i := range list {
		list[i] = Quiet{Partition: topology.PartitionID(r.Uint()), Epoch: r.Uint(), Bytes: r.Uint(),
			Load:  float64(r.Uint()),
			Small: time.Duration(r.UpTo(most)) * time.Millisecond,
			Idle:  time.Duration(r.UpTo(most)) * time.Millisecond}
	}
	return list, r.End()
}
