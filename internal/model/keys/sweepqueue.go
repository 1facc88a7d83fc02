// SPDX-License-Identifier: Apache-2.0

package keys

import "encoding/binary"

// These are the classes of sweep queue entries. The classes have different sweep delays.
const (
	SweepRows   byte = 0
	SweepDedupe byte = 1
	// SweepItems is the class of rows with a lifetime.
	SweepItems byte = 2
)

// sweepEntryHead is the length of a sweep queue entry before the rest of the queued key. The entry includes the table
// ID.
const sweepEntryHead = 2*idLen + 1 + 8

// SweepEntryLen returns the length of the sweep queue entry of a key.
func SweepEntryLen(key []byte) int { return sweepEntryHead + len(key) - idLen }

// AppendSweepEntry appends the sweep queue entry of a table's key. The key can be swept at the given second.
func AppendSweepEntry(dst []byte, class byte, second int64, key []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, SweepQueueID)
	dst = append(append(dst, key[:idLen]...), class)
	dst = binary.BigEndian.AppendUint64(dst, uint64(second))
	return append(dst, key[idLen:]...)
}

// SweepTime returns the second of a sweep queue entry, or 0 if note is not a sweep queue entry.
func SweepTime(note []byte) int64 {
	if len(note) < sweepEntryHead {
		return 0
	}
	return int64(binary.BigEndian.Uint64(note[2*idLen+1:]))
}

// AppendSweepTarget appends the key to which a sweep queue entry refers. If note is not a sweep queue entry,
// AppendSweepTarget appends nothing.
func AppendSweepTarget(dst, note []byte) []byte {
	if len(note) < sweepEntryHead {
		return dst
	}
	return append(append(dst, note[idLen:2*idLen]...), note[sweepEntryHead:]...)
}

// SweepBounds returns the bounds of a class of a table's sweep queue entries that are due before the given second.
func SweepBounds(table uint32, class byte, second int64) (lower, upper []byte) {
	lower = append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, SweepQueueID), table), class)
	return lower, binary.BigEndian.AppendUint64(lower[:len(lower):len(lower)], uint64(max(second, 0)))
}
