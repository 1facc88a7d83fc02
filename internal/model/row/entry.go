// SPDX-License-Identifier: Apache-2.0

package row

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// ErrCorrupt is returned for bytes that neither a Builder nor a Merger wrote.
var ErrCorrupt = errors.New("corrupt row")

const (
	flagMarker       = 1
	flagMarkerTTL    = 2
	flagMarkerTime   = 4
	flagRowDeletion  = 8
	flagRanges       = 16
	flagMoreRanges   = 32
	flagLifetime     = 64
	flagsKnown       = 127
	headLen          = 9 // size of the flags and the base
	rangeUnbounded   = 1
	entryKindMask    = 3
	entryTimeShift   = 2
	entryTimeMask    = 3 << entryTimeShift
	entryPath        = 16
	entryKnown       = 31
	kindColDeletion  = 0
	kindCell         = 1
	kindExpiringCell = 2
	kindTombstone    = 3
	timeBase         = 0 << entryTimeShift
	timeBefore       = 1 << entryTimeShift
	timeDelta        = 2 << entryTimeShift
)

// entry is a decoded entry. Its slices point into the encoded bytes.
type entry struct {
	ts int64
	// when is the second of a deletion or the expiry of a cell.
	when        int64
	path, value []byte
	col         uint32
	ttl         int32
	kind        uint8
	hasPath     bool
}

// class orders the entries of one column. The deletion of the column is first, followed by the cell without a path and
// then the cells with a path.
func (e *entry) class() int {
	switch {
	case e.kind == kindColDeletion:
		return 0
	case !e.hasPath:
		return 1
	}
	return 2
}

// compare orders entries by column, class, and path, but not by content.
func (e *entry) compare(o *entry) int {
	if e.col != o.col {
		if e.col < o.col {
			return -1
		}
		return 1
	}
	if c := e.class() - o.class(); c != 0 {
		return c
	}
	return bytes.Compare(e.path, o.path)
}

// wins implements RW2 for two entries of the same column and path. It defines a total order of contents, which makes
// Merge commutative.
func (e *entry) wins(o *entry) bool {
	if e.ts != o.ts {
		return e.ts > o.ts
	}
	if e.kind != o.kind {
		return e.kind > o.kind // a tombstone wins over an expiring cell, which wins over a plain cell
	}
	if e.when != o.when {
		return e.when > o.when
	}
	if c := bytes.Compare(e.value, o.value); c != 0 {
		return c > 0
	}
	return e.ttl > o.ttl
}

// uvarint decodes a uvarint at pos. If the bytes are truncated or invalid, the returned position is negative.
func uvarint(b []byte, pos int) (uint64, int) {
	if uint(pos) < uint(len(b)) && b[pos] < 0x80 {
		return uint64(b[pos]), pos + 1
	}
	return uvarintLong(b, pos)
}

func uvarintLong(b []byte, pos int) (uint64, int) {
	if pos < 0 || pos > len(b) {
		return 0, -1
	}
	v, n := binary.Uvarint(b[pos:])
	if n <= 0 {
		return 0, -1
	}
	return v, pos + n
}

// readSecond decodes a second, which is a non-negative int64.
func readSecond(b []byte, pos int) (int64, int) {
	v, pos := uvarint(b, pos)
	if v > math.MaxInt64 {
		return 0, -1
	}
	return int64(v), pos
}

// readDelta decodes a zigzag varint.
func readDelta(b []byte, pos int) (int64, int) {
	v, pos := uvarint(b, pos)
	return int64(v>>1) ^ -int64(v&1), pos
}

// readBytes decodes a length and that number of bytes. The result is never nil.
func readBytes(b []byte, pos int) ([]byte, int) {
	n, pos := uvarint(b, pos)
	if pos < 0 || n > uint64(len(b)-pos) {
		return nil, -1
	}
	end := pos + int(n)
	return b[pos:end:end], end
}

// readTTL decodes a TTL and an expiry.
func readTTL(b []byte, pos int) (int32, int64, int) {
	ttl, pos := uvarint(b, pos)
	expiry, pos := readSecond(b, pos)
	if ttl > math.MaxInt32 {
		return 0, 0, -1
	}
	return int32(ttl), expiry, pos
}

// read decodes the entry at pos of b. If the entry is corrupt, the returned position is negative.
func (e *entry) read(b []byte, pos int, base int64) int {
	k := b[pos]
	if k > entryKnown {
		return -1
	}
	col, pos := uvarint(b, pos+1)
	if col > math.MaxUint32 || pos < 0 {
		return -1
	}
	e.col, e.kind, e.hasPath = uint32(col), k&entryKindMask, k&entryPath != 0
	switch k & entryTimeMask {
	case timeBase:
		e.ts = base
	case timeBefore:
		e.ts = base - 1
	case timeDelta:
		var d int64
		d, pos = readDelta(b, pos)
		e.ts = base + d
	default:
		return -1
	}
	e.path = nil
	if e.hasPath {
		if e.path, pos = readBytes(b, pos); e.kind == kindColDeletion {
			return -1
		}
	}
	e.value, e.ttl = nil, 0
	switch e.kind {
	case kindColDeletion, kindTombstone:
		e.when, pos = readSecond(b, pos)
	case kindExpiringCell:
		e.ttl, e.when, pos = readTTL(b, pos)
		e.value, pos = readBytes(b, pos)
	default:
		e.when = NoExpiry
		e.value, pos = readBytes(b, pos)
	}
	return pos
}

// append encodes the entry.
func (e *entry) append(dst []byte, base int64) []byte {
	k := e.kind
	if e.hasPath {
		k |= entryPath
	}
	switch {
	case e.ts == base:
	case e.ts == base-1:
		k |= timeBefore
	default:
		k |= timeDelta
	}
	dst = append(dst, k)
	dst = binary.AppendUvarint(dst, uint64(e.col))
	if k&entryTimeMask == timeDelta {
		dst = appendDelta(dst, e.ts-base)
	}
	if e.hasPath {
		dst = appendBytes(dst, e.path)
	}
	switch e.kind {
	case kindColDeletion, kindTombstone:
		return binary.AppendUvarint(dst, uint64(max(e.when, 0)))
	case kindExpiringCell:
		dst = binary.AppendUvarint(dst, uint64(max(e.ttl, 0)))
		dst = binary.AppendUvarint(dst, uint64(max(e.when, 0)))
	}
	return appendBytes(dst, e.value)
}

func appendDelta(dst []byte, d int64) []byte {
	return binary.AppendUvarint(dst, uint64(d)<<1^uint64(d>>63))
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}
