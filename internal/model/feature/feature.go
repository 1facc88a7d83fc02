// SPDX-License-Identifier: Apache-2.0

// Package feature defines the feature level. Nodes of different builds use the level to agree on the formats that they
// write and on the effect of log entries.
//
// A build understands a range of levels. An entry in the log of a partition sets the partition's level, which never
// decreases. All replicas therefore change their behavior at the same index. If only a later build can read some
// bytes, the error is Newer, and the bytes are not treated as damaged.
package feature

import (
	"errors"
	"fmt"
)

// Level is a version of the formats. Level 0 is invalid.
type Level uint32

// These are the levels that this version supports:
//
//   - Level 1 is the base: the formats of version 2 (RFC 0006).
//   - Level 2 adds partition splits (RFC 0012).
//   - Level 3 adds containers (RFC 0021).
//   - Level 4 adds change logs (RFC 0024), item indexes (RFC 0025), and vectors (RFC 0026).
//   - Level 5 adds column masks (RFC 0027), change logs of CQL tables (RFC 0024), user-defined functions (RFC 0029),
//     materialized views (RFC 0030), and storage-attached indexes (RFC 0031).
//   - Level 6 adds lists in vector indexes (RFC 0033).
//   - Level 7 adds IDs of truncations (RFC 0005).
//   - Level 8 adds lifetimes of items (RFC 0038), generations of change feeds (RFC 0024), and columns dropped up to a
//     timestamp.
//   - Level 9 adds regions (RFC 0039).
//   - Level 10 adds users, permissions, and client encryption keys of databases (RFC 0021), and full-text indexes of
//     containers (RFC 0025).
const (
	Oldest Level = 1
	Newest Level = 10
)

// Regions is the first level at which a cluster can have nodes in several regions.
const Regions Level = 9

// DatabaseResources is the level that introduces users, permissions, and client encryption keys of databases.
const DatabaseResources Level = 10

// FullTextIndexes is the level from which items have index entries for the terms of their texts.
const FullTextIndexes Level = 10

// TruncationIDs is the level that introduces IDs of truncations.
const TruncationIDs Level = 7

// Level 8 includes several features. Items are stored with lifetimes instead of deadlines. Query continuations contain
// the ID of their container. Change feeds have generations, and columns can be dropped up to a timestamp.
const (
	Lifetimes       Level = 8
	ContinuationIDs Level = 8
	FeedGenerations Level = 8
	DropTimes       Level = 8
)

// Range is the range of levels that a build understands. Both ends are included.
type Range struct{ Oldest, Newest Level }

// Known is the range of levels that this build understands.
var Known = Range{Oldest, Newest}

// Has reports whether the level is in the range.
func (r Range) Has(l Level) bool { return r.Oldest <= l && l <= r.Newest }

// String returns the range in the form "1 to 2", or "1" for a single level.
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return fmt.Sprint(r.Newest)
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}

// ErrNewer matches every Newer. It means that the data is intact, but this build is too old to read the data.
var ErrNewer = errors.New("written by a newer version of Ilion")

// Newer describes data that a later build wrote. It states the range that this version supports. It matches ErrNewer.
type Newer struct {
	// This is the name of the data, such as "this directory" or "a mutation".
	What string
	// Unit is the meaning of the number in Has, such as "feature level", "format", or "entry kind".
	Unit string
	Has  uint64
	// Oldest and Newest limit the range of numbers that this version supports. Oldest is 0 if only Newest matters.
	// Newest is 0 if the build supports no number.
	Oldest, Newest uint64
}

// Error returns a sentence for an operator.
func (e *Newer) Error() string {
	known := fmt.Sprint(e.Newest)
	switch {
	case e.Newest == 0:
		known = "none"
	case e.Oldest > 0:
		known = Range{Level(e.Oldest), Level(e.Newest)}.String()
	}
	return fmt.Sprintf("%s was written by a newer version of Ilion (%s %d); this version supports %s", e.What, e.Unit, e.Has,
		known)
}

// Is reports whether target is ErrNewer.
func (e *Newer) Is(target error) bool { return target == ErrNewer }
