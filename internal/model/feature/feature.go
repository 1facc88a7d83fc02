// SPDX-License-Identifier: Apache-2.0

// Package feature has the feature level: the one number by which nodes of several builds agree on the formats they
// write and on what applying a log entry does.
//
// A build understands a range of levels. A partition's level is installed by an entry of its log and never falls, so
// all replicas change what they do at the same index. Bytes that only a later build can read are refused with Newer,
// which is not damage.
package feature

import (
	"errors"
	"fmt"
)

// Level numbers a step in the life of the formats. 0 is none.
type Level uint32

// The levels that this build understands. Level 1 is that of the formats of version 2 (RFC 0006), from level 2 on
// partitions split (RFC 0012), from level 3 on there are containers (RFC 0021), from level 4 on change logs (RFC
// 0024), indexes of items (RFC 0025) and vectors (RFC 0026), and from level 5 on masks of columns (RFC 0027), change
// logs of CQL tables (RFC 0024), user-defined functions (RFC 0029), materialized views (RFC 0030) and storage-attached
// indexes (RFC 0031). From level 6 on indexes of vectors have lists (RFC 0033), and from level 7 on truncations have
// IDs (RFC 0005). From level 8 on items have lifetimes (RFC 0038), change feeds have generations (RFC 0024), and
// columns are dropped up to a timestamp.
const (
	Oldest Level = 1
	Newest Level = 8
)

// TruncationIDs is the level from which on truncations have IDs.
const TruncationIDs Level = 7

// The features of level 8: items are stored with their lifetimes instead of their deadlines, continuations of queries
// contain the ID of their container, change feeds have generations, and columns are dropped up to a timestamp.
const (
	Lifetimes       Level = 8
	ContinuationIDs Level = 8
	FeedGenerations Level = 8
	DropTimes       Level = 8
)

// Range is the levels that a build understands, both ends included.
type Range struct{ Oldest, Newest Level }

// Known is the range of this build.
var Known = Range{Oldest, Newest}

// Has reports whether the level is in the range.
func (r Range) Has(l Level) bool { return r.Oldest <= l && l <= r.Newest }

// String is "1 to 2", or "1" for a single level.
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return fmt.Sprint(r.Newest)
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}

// ErrNewer is what every Newer is: what was read is not damaged, but this build is too old for it.
var ErrNewer = errors.New("written by a newer Ilion")

// Newer says what a later build wrote, and what this build understands. It is ErrNewer.
type Newer struct {
	// What names what was read: "this directory", "a mutation".
	What string
	// Unit names the number Has: "feature level", "format", "entry kind".
	Unit string
	Has  uint64
	// Oldest and Newest are what this build understands of Unit; Oldest is 0 where only the newest is of interest,
	// Newest if there is none.
	Oldest, Newest uint64
}

// Error is a sentence for an operator.
func (e *Newer) Error() string {
	known := fmt.Sprint(e.Newest)
	switch {
	case e.Newest == 0:
		known = "none"
	case e.Oldest > 0:
		known = Range{Level(e.Oldest), Level(e.Newest)}.String()
	}
	return fmt.Sprintf("%s was written by a newer Ilion (%s %d); this build understands %s", e.What, e.Unit, e.Has,
		known)
}

// Is makes every Newer an ErrNewer.
func (e *Newer) Is(target error) bool { return target == ErrNewer }
