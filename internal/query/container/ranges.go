// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Range is a physical partition as clients see it.
type Range struct {
	ID string
	// Min and Max are effective partition keys as hexadecimal numbers, "" and "FF" at the ends.
	Min, Max string
	// Parents are the ids of the physical partitions that it came from.
	Parents []string
}

// Ranges lists the physical partitions of a container in order. The etag changes when they do, and has quotes.
func (e *Engine) Ranges(c *Container) (ranges []Range, etag string) {
	snapshot := e.opts.Coordinator.Topology()
	h := fnv.New64a()
	for _, p := range snapshot.Partitions(c.table.ID) {
		r := Range{ID: rangeID(p.ID, p.Epoch), Min: c.boundary(p.Span.Begin), Max: epk.End, Parents: parentsOf(p)}
		if !p.Span.Limit.IsZero() {
			r.Max = c.boundary(p.Span.Limit)
		}
		ranges = append(ranges, r)
		fmt.Fprintf(h, "%s %s %s\n", r.ID, r.Min, r.Max)
	}
	return ranges, etagOf(h.Sum64())
}

// firstEpoch is that of a partition whose span has never changed.
const firstEpoch = 1

// rangeID is the id of a physical partition as clients see it. It changes with the partition's epoch, which a split and
// a merge raise: who still takes it for what it was has to look again (410/1002), and does not miss what went away.
func rangeID(id topology.PartitionID, epoch uint64) string {
	s := strconv.FormatUint(uint64(id), 10)
	if epoch > firstEpoch {
		s += "-" + strconv.FormatUint(epoch, 10)
	}
	return s
}

// parentsOf are the ids by which clients may know a partition from before; none of them is in use. Where a partition
// that came of a split has changed since, it is only its own: the map does not tell which epoch it was born with.
func parentsOf(p *topology.Partition) []string {
	switch {
	case p.Epoch == firstEpoch:
		return nil
	case p.Epoch == firstEpoch+1 && p.Parent != 0:
		return []string{rangeID(p.Parent, firstEpoch)}
	}
	return []string{rangeID(p.ID, p.Epoch-1)}
}

// boundary is where a physical partition begins, as an effective partition key. Where a partition is cut between keys
// of one place it is that of the key behind the cut.
func (c *Container) boundary(p keys.Position) string {
	d := c.Definition
	if len(p.Key) > 0 {
		if k, err := epk.ParseKey(p.Key, len(d.Paths)); err == nil {
			return d.Hash.Hex(k)
		}
		return d.Hash.Boundary(p.Ring + 1)
	}
	return d.Hash.Boundary(p.Ring)
}

// rangeOf is the physical partition that has a key, which stands at a token.
func (e *Engine) rangeOf(c *Container, at token.Token, key []byte) string {
	p := e.opts.Coordinator.Topology().Locate(c.table.ID, at, key)
	if p == nil {
		return ""
	}
	return rangeID(p.ID, p.Epoch)
}

// sequences are the log sequence numbers that a node tells: they grow by one with each write through this node, and
// follow those that other nodes have told. They say nothing of what a read sees, which is always everything that was
// acknowledged before it began.
type sequences struct {
	mu sync.Mutex
	of map[string]int64
}

// sequencesMax bounds how many physical partitions numbers are kept for; then all begin anew, higher.
const sequencesMax = 100_000

// first is what a partition's numbers begin with: they are higher than those of an earlier start, as no partition takes
// a write each microsecond for long.
func (s *sequences) first() int64 { return time.Now().UnixMicro() }

func (s *sequences) change(id string, f func(old int64) int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) > sequencesMax {
		s.of = map[string]int64{}
	}
	old, ok := s.of[id]
	if !ok {
		old = s.first()
	}
	next := f(old)
	if !ok {
		id = strings.Clone(id) // it may be a part of the headers of a request
	}
	s.of[id] = next
	return next
}

// LSN is the newest log sequence number that this node has told of a physical partition, at least 1.
func (e *Engine) LSN(rangeID string) int64 {
	return e.lsns.change(rangeID, func(old int64) int64 { return old })
}

// Seen tells the engine the number of a session token, of this or another node: later answers are not below. A number
// that is a day ahead of the clock is not of any node, and ignored.
func (e *Engine) Seen(rangeID string, lsn int64) {
	if lsn < time.Now().Add(24*time.Hour).UnixMicro() {
		e.lsns.change(rangeID, func(old int64) int64 { return max(old, lsn) })
	}
}

// wrote is the number of a write.
func (e *Engine) wrote(rangeID string) int64 {
	return e.lsns.change(rangeID, func(old int64) int64 { return old + 1 })
}
