// SPDX-License-Identifier: Apache-2.0

package keys

import "encoding/binary"

// The classes of notes of what is due, which are swept after different times.
const (
	SweepRows   byte = 0
	SweepDedupe byte = 1
)

// dueHead is the length of what stands in a note before the noted key, whose table it has already.
const sweepEntryHead = 2*idLen + 1 + 8

// DueLen is the length of the note of a key.
func SweepEntryLen(key []byte) int { return sweepEntryHead + len(key) - idLen }

// AppendDue appends the note that a key of a table is due at a second.
func AppendSweepEntry(dst []byte, class byte, second int64, key []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, SweepQueueID)
	dst = append(append(dst, key[:idLen]...), class)
	dst = binary.BigEndian.AppendUint64(dst, uint64(second))
	return append(dst, key[idLen:]...)
}

// DueTime is the second of a note, 0 for what is none.
func SweepTime(note []byte) int64 {
	if len(note) < sweepEntryHead {
		return 0
	}
	return int64(binary.BigEndian.Uint64(note[2*idLen+1:]))
}

// AppendNoted appends the key that a note is about; nothing for what is none.
func AppendSweepTarget(dst, note []byte) []byte {
	if len(note) < sweepEntryHead {
		return dst
	}
	return append(append(dst, note[idLen:2*idLen]...), note[sweepEntryHead:]...)
}

// DueBounds are the bounds of the notes of a table and class that are due before a second.
func SweepBounds(table uint32, class byte, second int64) (lower, upper []byte) {
	lower = append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, SweepQueueID), table), class)
	return lower, binary.BigEndian.AppendUint64(lower[:len(lower):len(lower)], uint64(max(second, 0)))
}
