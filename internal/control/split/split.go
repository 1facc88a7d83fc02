// SPDX-License-Identifier: Apache-2.0

// Package split says which physical partition may be split now, as a pure function of the records.
//
// Guarantees: (SP1) the partitions of a table tile its ring at every moment; (SP2) what changed its span is left alone
// for Pause, unless an operator is in a hurry, or the split leaves a hot key with a partition of its own, which takes
// two splits; (SP3) at most AtOnce splits are under way in a cluster. The package
// carries nothing out (that is control/reconcile). Start at Order.Apply, then Hotspot.
package split

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// The bounds.
const (
	// Pause is how long a partition is left alone after its span has changed.
	Pause = time.Minute
	// AtOnce bounds the splits of a cluster that are under way.
	AtOnce = 8
	// Level is the feature level from which on partitions split.
	Level feature.Level = 2
)

// Order has a partition split.
type Order struct {
	Table     uint32
	Partition topology.PartitionID
	// At is where the new partition begins.
	At topology.Position
	// Level is that of the node where it stands alone, and has no map with one.
	Level feature.Level
	// Hasty does not wait for Pause to end.
	Hasty bool
	// Cause is why it is to split.
	Cause topology.Cause
}

// Apply returns the state in which the split is ordered, or says why it cannot be.
func (o *Order) Apply(s *meta.State, now time.Time) (*meta.State, error) {
	p := s.Map.Partition(o.Partition)
	level := max(o.Level, s.Map.Level())
	switch {
	case p == nil || p.Table != o.Table || p.ID == topology.MetaPartition:
		return nil, fmt.Errorf("the table has no partition %d: see ilion partition list", o.Partition)
	case level < Level:
		return nil, fmt.Errorf("the feature level is %d and partitions split from %d on: "+
			"order ilion upgrade when all nodes run this build", level, Level)
	case underWay(s.Map) >= AtOnce && p.Cut == nil:
		return nil, fmt.Errorf("%d partitions are being split, and no more are at a time: try again when one is done", AtOnce)
	}
	if wait := Rests(p, now); wait > 0 && !o.Hasty && p.Cut == nil && !o.isolates(p) {
		return nil, fmt.Errorf("partition %d has changed just now and is left alone for %v: wait, or say --now", p.ID,
			wait.Round(time.Second))
	}
	next, err := s.Map.BeginSplit(p.ID, o.At, o.Cause, now)
	if err != nil {
		return nil, err
	}
	return s.WithMap(next), nil
}

// Rests is for how long a partition is left alone, 0 if it is not. A clock that was set back does not prolong it.
func Rests(p *topology.Partition, now time.Time) time.Duration {
	if p.Since == 0 {
		return 0
	}
	return min(max(Pause-now.Sub(time.UnixMilli(p.Since)), 0), Pause)
}

// underWay counts the splits of the map.
func underWay(m *topology.Snapshot) (n int) {
	for p := range m.All() {
		if p.Cut != nil {
			n++
		}
	}
	return n
}
