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
	// Min and Max are hexadecimal effective partition keys; "" and "FF" are the ends of the key space.
	Min, Max string
	// Parents are the IDs of the physical partitions from which this physical partition was created.
	Parents []string
}

// Ranges lists the physical partitions of a container in order. The quoted etag changes whenever the ranges change.
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

// firstEpoch is the epoch of a partition whose range has never changed.
const firstEpoch = 1

// rangeID returns the client-visible ID of a physical partition. The ID changes with the partition's epoch, which is
// incremented by splits and merges. A client with an old ID receives 410/1002 and must refresh its partition list.
// Otherwise, the client would miss the data that moved.
func rangeID(id topology.PartitionID, epoch uint64) string {
	s := strconv.FormatUint(uint64(id), 10)
	if epoch > firstEpoch {
		s += "-" + strconv.FormatUint(epoch, 10)
	}
	return s
}

// parentsOf returns the previous IDs by which clients may know a partition. No partition uses these IDs now. A
// partition that has changed since its split reports only its own previous ID, because the topology does not contain
// its initial epoch.
func parentsOf(p *topology.Partition) []string {
	switch {
	case p.Epoch == firstEpoch:
		return nil
	case p.Epoch == firstEpoch+1 && p.Parent != 0:
		return []string{rangeID(p.Parent, firstEpoch)}
	}
	return []string{rangeID(p.ID, p.Epoch-1)}
}

// boundary returns the beginning of a physical partition as an effective partition key. If the boundary is between
// keys of one ring position, it returns the effective key of the first key in the partition.
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

// rangeOf returns the ID of the physical partition that contains a key at a token.
func (e *Engine) rangeOf(c *Container, at token.Token, key []byte) string {
	p := e.opts.Coordinator.Topology().Locate(c.table.ID, at, key)
	if p == nil {
		return ""
	}
	return rangeID(p.ID, p.Epoch)
}

// sequences holds the log sequence numbers that a node reports. A number increases by one with each write through this
// node. It never falls below numbers that other nodes have reported. The numbers do not affect reads, because a read
// always reflects all writes that were acknowledged before it began.
type sequences struct {
	mu      sync.Mutex
	numbers map[string]int64
}

// sequencesMax is the maximum number of physical partitions for which numbers are kept. Above this limit, all numbers
// are reset to higher initial values.
const sequencesMax = 100_000

// first returns the initial number of a partition. It exceeds all numbers from before a restart, because no partition
// sustains one write per microsecond.
func (s *sequences) first() int64 { return time.Now().UnixMicro() }

func (s *sequences) change(id string, f func(old int64) int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers == nil || len(s.numbers) > sequencesMax {
		s.numbers = map[string]int64{}
	}
	old, ok := s.numbers[id]
	if !ok {
		old = s.first()
	}
	next := f(old)
	if !ok {
		id = strings.Clone(id) // id may refer to the memory of the request headers.
	}
	s.numbers[id] = next
	return next
}

// LSN returns the latest log sequence number that this node has reported for a physical partition. It is at least 1.
func (s *sequences) LSN(rangeID string) int64 {
	return s.change(rangeID, func(old int64) int64 { return old })
}

// Seen records the number of a session token from any node. Later responses report no smaller number. A number more
// than a day ahead of the clock was not issued by a node and is ignored.
func (s *sequences) Seen(rangeID string, lsn int64) {
	if lsn < time.Now().Add(24*time.Hour).UnixMicro() {
		s.change(rangeID, func(old int64) int64 { return max(old, lsn) })
	}
}

// wrote returns the number of a new write.
func (s *sequences) wrote(rangeID string) int64 {
	return s.change(rangeID, func(old int64) int64 { return old + 1 })
}
