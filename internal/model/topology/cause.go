// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// Cause is why a partition is changed. Causes are stored: a new one gets a new number.
type Cause uint8

// The causes.
const (
	// UnknownCause is that of a build that did not note it.
	UnknownCause Cause = iota
	// ByHand: an operator ordered it.
	ByOperator
	// BySize: the partition is too large, or two neighbours are small enough for one.
	BySize
	// ByLoad: the partition has more to do than one should, or two neighbours have little.
	ByLoad
	// ByThroughput: the throughput that was provisioned asks for it.
	ByThroughput
	// ToRepair: a change could not end as it was begun.
	ToRepair
	// ToHeal: a node has been dead for too long.
	ToHeal
	// ToGrow: there are nodes for more replicas.
	ToGrow
	// ToLeave: a node was asked to leave.
	ToLeave
	// ToBalance: the nodes are to have their fair shares.
	ToBalance
	// ToMerge: the replicas of two neighbours are brought together to be merged.
	ToMerge
	// ByKey: one logical partition has most of what the partition is asked for, and is to be apart from its siblings.
	ByKey
)

var causes = [...]string{"unknown", "by hand", "size", "load", "throughput", "repair", "a node was lost",
	"more replicas",
	"a node leaves", "balance", "merge", "hot key"}

// String is the cause in words, lower case.
func (c Cause) String() string {
	if int(c) < len(causes) {
		return causes[c]
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// Reason is why a change of a partition was begun, and when, in milliseconds since the epoch.
type Reason struct {
	Cause Cause
	Began int64
}

// NewReason is that of a change that begins now.
func NewReason(c Cause, now time.Time) *Reason { return &Reason{c, now.UnixMilli()} }

// WithReason notes why the members of a partition are being changed; RecordVoters forgets it once they are at rest. A
// partition that is not there changes nothing.
func (s *Snapshot) WithReason(id PartitionID, r *Reason) *Snapshot {
	p := s.Partition(id)
	if p == nil {
		return s
	}
	changed := *p
	changed.Reason = r
	out := s.next()
	out.put(&changed)
	return out
}

// put takes the place of the partition of its id, which begins where it did.
func (s *Snapshot) put(p *Partition) {
	if p.ID == MetaPartition {
		s.meta = p
		return
	}
	i := find(s.Partitions(p.Table), p.Span.Begin)
	s.replace(p.Table, i, i+1, p)
}

func (r *Reason) append(w *codec.Writer) {
	w.Uint(uint64(r.Cause))
	w.Int(r.Began)
}

func (r *decoder) reason() *Reason {
	return &Reason{Cause: Cause(min(r.Uint(), 255)), Began: r.Int()}
}
