// SPDX-License-Identifier: Apache-2.0

package keys

import "encoding/binary"

// stampLen is the length of the timestamp in a change log key. The timestamp is at the start of the rest.
const stampLen = 8

// AppendChange appends the kind and the rest of a change log entry to the prefix of its partition. kind is Latest or
// Change. stamp is the commit timestamp in microseconds. clustering is the key of the row.
func AppendChange(prefix []byte, kind byte, stamp int64, clustering []byte) []byte {
	prefix = binary.BigEndian.AppendUint64(append(prefix, kind), uint64(max(stamp, 0)))
	return append(prefix, clustering...)
}

// ParseChange splits the rest of a key of kind Latest or Change. ok is false if rest is too short. clustering points
// into rest.
func ParseChange(rest []byte) (stamp int64, clustering []byte, ok bool) {
	if len(rest) < stampLen {
		return 0, nil, false
	}
	return int64(binary.BigEndian.Uint64(rest)), rest[stampLen:], true
}

// These bytes separate the timestamp from the clustering key in the keys of kind Change of a CQL table. Within a
// commit, range deletions sort before row changes.
const (
	ChangedRanges byte = 0
	ChangedRow    byte = 1
)
