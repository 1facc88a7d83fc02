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

// SizeLimitText is contained in the error for a write to a full logical partition, from any node.
const SizeLimitText = " has reached its maximum size "

const (
	// writeSampleBits is the logarithm of the number of bytes written per sample.
	writeSampleBits = 16
	// WriteSampleBytes is the number of written bytes that a write sample represents.
	WriteSampleBytes = 1 << writeSampleBits
	// writeSamplesMax is the number of samples that are kept until they are fetched. Newer samples replace older
	// samples.
	writeSamplesMax = 256
)

// writeSamples holds sampled ring positions of writes: one for every 64 KiB written.
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

// WriteSamples passes on the sampled positions since the last call, one for every WriteSampleBytes. Calls must not be
// concurrent. from is the result of the last call, or 0.
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

	// bytes is the measured size plus the bytes written since. full is set if the measured size reached Limit.
	bytes atomic.Int64
	full  atomic.Bool
}

// slackShare divides the limit. The quotient is the number of bytes that may be written above the limit before the next
// measurement.
const slackShare = 50

// SetMeasured stores a measured size. since is the value of Bytes at the start of the measurement.
func (n *SizeTracker) SetMeasured(bytes, since int64) {
	n.bytes.Add(bytes - since)
	n.full.Store(bytes >= n.Limit)
}

// Bytes returns the measured size plus the bytes written since, an upper bound of the size.
func (n *SizeTracker) Bytes() int64 { return n.bytes.Load() }

// Full reports whether the measured size has reached the limit.
func (n *SizeTracker) Full() bool { return n.full.Load() }

// SizeLimits enforces the maximum size of those logical partitions of a replica that are close to the maximum.
type SizeLimits struct {
	host     *Host
	id       topology.PartitionID
	trackers atomic.Pointer[[]*SizeTracker]
}

// Set tracks writes to the given logical partitions and rejects writes that would exceed their limits.
// Tracking ends for other partitions.
func (s *SizeLimits) Set(list []*SizeTracker) {
	if len(list) == 0 {
		s.trackers.Store(nil)
		return
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *SizeTracker) int { return cmp.Compare(a.Token, b.Token) })
	s.trackers.Store(&list)
}

// check rejects a mutation that adds data to a full logical partition. It admits deletions. It admits a part of a
// batch over several partitions, which has its timestamp, because other parts may already be written. It also admits a
// retry, which may already be applied.
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
		// The partition may be full or may have been overwritten. It will be measured before the next attempt.
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

// grows reports whether a mutation writes rows. Index entries do not count toward the size of a logical partition, so
// building an index, which writes only entries, is not rejected.
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

// WriteSamplesReady returns a channel that is signaled when WriteSamples may have new samples, or when a tracked
// partition has reached its limit.
func (h *Host) WriteSamplesReady() <-chan struct{} { return h.writeSamplesReady }
