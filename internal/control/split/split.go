// SPDX-License-Identifier: Apache-2.0

// Package split decides whether a physical partition may be split now, as a pure function of the cluster metadata.
//
// Guarantees:
//
//   - (SP1) The partitions of a table always cover the ring without gaps or overlaps.
//   - (SP2) After a change of its span, a partition is not split during Cooldown. The exceptions are requests with
//     SkipCooldown and the second of two splits that isolate a hot key.
//   - (SP3) The number of splits in progress in a cluster does not exceed MaxConcurrent.
//
// Package reconcile executes the splits. Start reading at Request.Apply, and then read Hotspot.
package split

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// These are the limits of splits.
const (
	// Cooldown is the time for which a partition is not split after its span has changed.
	Cooldown = time.Minute
	// MaxConcurrent is the maximum number of splits in progress in a cluster.
	MaxConcurrent = 8
	// MinFeatureLevel is the feature level that splits require.
	MinFeatureLevel feature.Level = 2
)

// Request is a request to split a partition.
type Request struct {
	Table     uint32
	Partition topology.PartitionID
	// At is the first position of the new partition.
	At topology.Position
	// Level is the feature level of a standalone node, whose topology has no feature level.
	Level feature.Level
	// SkipCooldown makes the split ignore Cooldown.
	SkipCooldown bool
	// Cause is the reason for the split.
	Cause topology.Cause
}

// Apply returns the state with the split recorded, or an error if the partition cannot be split.
func (o *Request) Apply(s *meta.State, now time.Time) (*meta.State, error) {
	p := s.Topology.Partition(o.Partition)
	level := max(o.Level, s.Topology.Level())
	switch {
	case p == nil || p.Table != o.Table || p.ID == topology.MetaPartition:
		return nil, fmt.Errorf("the table has no partition %d. Run \"ilion partition list\" to list its partitions",
			o.Partition)
	case level < MinFeatureLevel:
		return nil, fmt.Errorf("cannot split partition: the feature level is %d, and splits require %d. "+
			"Run \"ilion upgrade\" when all nodes run this version", level, MinFeatureLevel)
	case inProgress(s.Topology) >= MaxConcurrent && p.Split == nil:
		return nil, fmt.Errorf("cannot split partition: the limit of %d concurrent splits is reached. "+
			"Retry when a split has finished", MaxConcurrent)
	}
	if wait := CooldownRemaining(p, now); wait > 0 && !o.SkipCooldown && p.Split == nil && !o.isolatesToken(p) {
		return nil, fmt.Errorf("cannot split partition %d: it changed less than a minute ago. Retry in %v or use --now",
			p.ID,
			wait.Round(time.Second))
	}
	next, err := s.Topology.BeginSplit(p.ID, o.At, o.Cause, now)
	if err != nil {
		return nil, err
	}
	return s.WithTopology(next), nil
}

// CooldownRemaining returns the remaining time for which a partition must not be split or merged. A clock that moves
// back does not prolong the cooldown.
func CooldownRemaining(p *topology.Partition, now time.Time) time.Duration {
	if p.Since == 0 {
		return 0
	}
	return min(max(Cooldown-now.Sub(time.UnixMilli(p.Since)), 0), Cooldown)
}

// inProgress returns the number of splits in progress.
func inProgress(m *topology.Snapshot) (n int) {
	for p := range m.All() {
		if p.Split != nil {
			n++
		}
	}
	return n
}
