// SPDX-License-Identifier: Apache-2.0

package keys

import "encoding/binary"

// The classes of notes of what is due, which are swept after different times.
const (
	DueRows   byte = 0
	DueDedupe byte = 1
	// DueItems are rows with a lifetime.
	DueItems byte = 2
)

// dueHead is the length of what stands in a note before the noted key, whose table it has already.
const dueHead = 2*idLen + 1 + 8

// DueLen is the length of the note of a key.
func DueLen(key []byte) int { return dueHead + len(key) - idLen }

// AppendDue appends the note that a key of a table is due at a second.
func AppendDue(dst []byte, class byte, second int64, key []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, DueID)
	dst = append(append(dst, key[:idLen]...), class)
	dst = binary.BigEndian.AppendUint64(dst, uint64(second))
	return append(dst, key[idLen:]...)
}

// DueTime is the second of a note, 0 for what is none.
func DueTime(note []byte) int64 {
	if len(note) < dueHead {
		return 0
	}
	return int64(binary.BigEndian.Uint64(note[2*idLen+1:]))
}

// AppendNoted appends the key that a note is about; nothing for what is none.
func AppendNoted(dst, note []byte) []byte {
	if len(note) < dueHead {
		return dst
	}
	return append(append(dst, note[idLen:2*idLen]...), note[dueHead:]...)
}

// DueBounds are the bounds of the notes of a table and class that are due before a second.
func DueBounds(table uint32, class byte, second int64) (lower, upper []byte) {
	lower = append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, DueID), table), class)
	return lower, binary.BigEndian.AppendUint64(lower[:len(lower):len(lower)], uint64(max(second, 0)))
}
