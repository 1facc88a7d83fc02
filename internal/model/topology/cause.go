// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// Cause is the general reason for a partition change. Causes are stored, so a new cause must get a new number.
type Cause uint8

// These are the causes.
const (
	// UnknownCause is the cause of a change that was recorded by a build without causes.
	UnknownCause Cause = iota
	// ByOperator means that an operator requested the change.
	ByOperator
	// BySize means that the partition is too large, or that two neighbors are small enough to be merged.
	BySize
	// ByLoad means that the partition's load is too high, or that the load of two neighbors is low.
	ByLoad
	// ByThroughput means that the provisioned throughput requires the change.
	ByThroughput
	// ToRepair means that an earlier change could not be completed.
	ToRepair
	// ToHeal means that a node has been down for longer than the allowed time.
	ToHeal
	// ToGrow means that nodes for additional replicas are available.
	ToGrow
	// ToLeave means that a node is being decommissioned.
	ToLeave
	// ToBalance means that replicas are being balanced across the nodes.
	ToBalance
	// ToMerge means that the replicas of two neighbors are being colocated for a merge.
	ToMerge
	// ByKey means that one logical partition causes most of the load and is being isolated from the rest of the
	// partition.
	ByKey
)

var causes = [...]string{"unknown", "operator", "size", "load", "throughput", "repair", "node loss",
	"more replicas",
	"decommission", "balance", "merge", "hot key"}

// String returns the cause as a lowercase phrase.
func (c Cause) String() string {
	if int(c) < len(causes) {
		return causes[c]
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// Reason is the cause of a partition change and its start, in milliseconds since the epoch.
type Reason struct {
	Cause Cause
	Began int64
}

// NewReason returns a reason with the current time as the start of the change.
func NewReason(c Cause, now time.Time) *Reason { return &Reason{c, now.UnixMilli()} }

// WithReason records the reason for a change of a partition's members. RecordVoters removes the reason when no member
// is joining or leaving. It returns s unchanged if the partition does not exist.
func (s *Snapshot) WithReason(id PartitionID, r *Reason) *Snapshot {
	p := s.Partition(id)
	if p == nil {
		return s
	}
	changed := *p
	changed.Reason = r
	return with(s, &changed)
}

func (r *Reason) append(w *codec.Writer) {
	w.Uint(uint64(r.Cause))
	w.Int(r.Began)
}

func (r *decoder) reason() *Reason {
	return &Reason{Cause: Cause(min(r.Uint(), 255)), Began: r.Int()}
}
