// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// SizeLimitText is a part of the error for a write to a full logical partition.
const SizeLimitText = " has reached its maximum size "

const (
	// writeSampleBits is the binary logarithm of WriteSampleBytes.
	writeSampleBits = 16
	// WriteSampleBytes is the number of written bytes that a write sample represents.
	WriteSampleBytes = 1 << writeSampleBits
	// writeSamplesMax is the maximum number of samples. Newer samples replace older samples.
	writeSamplesMax = 256
)

// writeSamples holds the sampled ring positions of writes, with one sample for every 64 KiB of written data.
type writeSamples struct {
	next      atomic.Uint64
	positions [writeSamplesMax]atomic.Uint64
}

// sampleWrite samples a write. all is the total number of bytes written, including this write.
func (l *Load) sampleWrite(bytes, all int64, tok token.Token) {
	if all>>writeSampleBits == (all-bytes)>>writeSampleBits {
		return
	}
	h := l.writeSamples.Load()
	if h == nil {
		if h = new(writeSamples); !l.writeSamples.CompareAndSwap(nil, h) {
			h = l.writeSamples.Load()
		}
	}
	h.positions[h.next.Add(1)%writeSamplesMax].Store(tok.Position())
	l.host.notifyWriteSamples()
}

// WriteSamples calls visit for each position that has been sampled since the previous call. from is the result of the
// previous call, or 0. Calls must not be concurrent.
func (l *Load) WriteSamples(from uint64, visit func(tok token.Token)) (to uint64) {
	h := l.writeSamples.Load()
	if h == nil {
		return 0
	}
	to = h.next.Load()
	if to < from {
		from = 0
	}
	for i := max(from, to-min(to, writeSamplesMax)); i < to; i++ {
		visit(token.AtPosition(h.positions[(i+1)%writeSamplesMax].Load()))
	}
	return to
}

// SizeTracker tracks the size of a logical partition that is close to its limit. It is safe for concurrent use.
type SizeTracker struct {
	Token token.Token
	// Name is the readable name of the logical partition. Limit is its maximum size in bytes.
	Name  string
	Limit int64

	// bytes is the measured size plus the number of bytes written since the measurement. full is set if the measured
	// size has reached Limit.
	bytes atomic.Int64
	full  atomic.Bool
}

// slackShare is the divisor of the limit that yields the number of bytes that may be written above the limit before the
// next measurement.
const slackShare = 50

// SetMeasured stores a measured size. since must be the value of Bytes at the start of the measurement.
func (n *SizeTracker) SetMeasured(bytes, since int64) {
	n.bytes.Add(bytes - since)
	n.full.Store(bytes >= n.Limit)
}

// Bytes returns an upper bound of the size. It is the measured size plus the number of bytes written since the
// measurement.
func (n *SizeTracker) Bytes() int64 { return n.bytes.Load() }

// Full reports whether the measured size has reached the limit.
func (n *SizeTracker) Full() bool { return n.full.Load() }

// SizeLimits enforces the maximum size of logical partitions that are close to the maximum.
type SizeLimits struct {
	host     *Host
	id       topology.PartitionID
	trackers atomic.Pointer[[]*SizeTracker]
}

// Set replaces the tracked logical partitions. The replica rejects writes that would exceed the limit of a tracked
// partition.
func (s *SizeLimits) Set(list []*SizeTracker) {
	if len(list) == 0 {
		s.trackers.Store(nil)
		return
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *SizeTracker) int { return cmp.Compare(a.Token, b.Token) })
	s.trackers.Store(&list)
}

// check rejects a mutation that adds data to a full logical partition. It admits deletions. It also admits a part of an
// atomic batch, because other parts may already be written, and a retry, because the write may already be applied.
func (s *SizeLimits) check(m *command.Mutation) error {
	list := s.trackers.Load()
	if list == nil || m.Timestamp != 0 || m.Retried {
		return nil
	}
	i, ok := slices.BinarySearchFunc(*list, m.Token, func(n *SizeTracker, t token.Token) int {
		return cmp.Compare(n.Token, t)
	})
	if !ok || !grows(m) {
		return nil
	}
	n := (*list)[i]
	_, bytes := ru.Write(m)
	if !n.full.Load() && n.bytes.Load()+bytes > n.Limit+n.Limit/slackShare {
		// The measured size may be too high, because writes may have replaced data. The partition is therefore measured
		// again before the next attempt.
		s.host.notifyWriteSamples()
		return &NotLeader{Partition: s.id}
	}
	if n.full.Load() {
		return &dberr.Invalid{Message: fmt.Sprintf("The logical partition %s"+SizeLimitText+"of %d bytes: "+
			"only reads and deletes are accepted. Use a partition key with more distinct values",
			n.Name, n.Limit)}
	}
	if n.bytes.Add(bytes) > n.Limit {
		s.host.notifyWriteSamples()
	}
	return nil
}

// grows reports whether a mutation writes rows. Index entries do not count toward the size of a logical partition.
func grows(m *command.Mutation) bool {
	for i := range m.Ops {
		switch op := &m.Ops[i]; op.Kind {
		case command.OpIndex, command.OpChange:
		default:
			if sets, _, err := row.Check(op.Operand); sets && err == nil {
				return true
			}
		}
	}
	return false
}

// notifyWriteSamples signals that WriteSamples should be called.
func (h *Host) notifyWriteSamples() {
	select {
	case h.writeSamplesReady <- struct{}{}:
	default:
	}
}

// WriteSamplesReady returns a channel that receives a signal when WriteSamples may have new samples or a tracked
// partition has reached its limit.
func (h *Host) WriteSamplesReady() <-chan struct{} { return h.writeSamplesReady }
