// SPDX-License-Identifier: Apache-2.0

package keys

import "encoding/binary"

// stampLen is the length of the stamp with which the rest of a key of the change log begins.
const stampLen = 8

// AppendChange appends kind and rest of an entry of the change log to the prefix of its partition: kind is Latest or
// Change, stamp that of the commit in microseconds, clustering the key of the row.
func AppendChange(prefix []byte, kind byte, stamp int64, clustering []byte) []byte {
	prefix = binary.BigEndian.AppendUint64(append(prefix, kind), uint64(max(stamp, 0)))
	return append(prefix, clustering...)
}

// ParseChange takes the rest of a key of the kinds Latest and Change apart; ok is false for what is too short.
// clustering points into rest.
func ParseChange(rest []byte) (stamp int64, clustering []byte, ok bool) {
	if len(rest) < stampLen {
		return 0, nil, false
	}
	return int64(binary.BigEndian.Uint64(rest)), rest[stampLen:], true
}

// What stands between the stamp and the clustering key in the keys of kind Change of a CQL table: of one commit,
// deletions of ranges come before the changes of rows.
const (
	ChangedRanges byte = 0
	ChangedRow    byte = 1
)
