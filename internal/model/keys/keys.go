// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/token"
)

// These are the IDs below FirstTable.
const (
	IdentityID       uint32 = 0
	PartitionID      uint32 = 1
	RegistryID       uint32 = 2
	MetaID           uint32 = 3
	FlagsID          uint32 = 4
	TombstoneCacheID uint32 = 5
	SweepQueueID     uint32 = 6
	ProgressID       uint32 = 7
	// FirstTable is the first ID of a table or index. IDs up to 1023 belong to tables that every schema contains.
	FirstTable uint32 = 512
)

// MetadataVersionKey is the key of the metadata version under MetaID. The version covers all other keys under MetaID.
// The version has 8 bytes. All other keys under MetaID start with a higher byte.
const MetadataVersionKey = "\x00"

// These bits of an ID define the layout of its keys.
const (
	// WideRing marks tables with positions of 16 bytes.
	WideRing uint32 = 1 << 31
	// WholeKey marks tables whose bloom filters contain rows instead of partitions.
	WholeKey uint32 = 1 << 30
	// IndexSpace marks indexes.
	IndexSpace uint32 = 1 << 29
	// OrderedIndex marks indexes whose entries are ordered by value.
	OrderedIndex uint32 = 1 << 28
)

// These are the kinds of keys under a partition key.
const (
	Deletions byte = 0
	Range     byte = 1
	Static    byte = 2
	Row       byte = 3
	Dedupe    byte = 4
	// Latest is a change log entry for the current state of a row. Change is an entry that stores the change itself.
	// See AppendChange.
	Latest byte = 5
	Change byte = 6
	// Pointer stores the timestamp of a row's change log entry, in 8 bytes, if the row itself does not store it.
	Pointer byte = 7
)

// MaxLen is the maximum length of a partition key or an indexed value, in bytes.
const MaxLen = math.MaxUint16

const idLen = 4

// positionLen returns the length of the ring position in keys with the given ID.
func positionLen(id uint32) int {
	if id&WideRing != 0 {
		return 16
	}
	return 8
}

func appendSized(dst, b []byte) []byte {
	b = b[:min(len(b), MaxLen)]
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(b)))
	return append(dst, b...)
}

// AppendToken appends the position of a token.
func AppendToken(dst []byte, tok token.Token) []byte {
	return binary.BigEndian.AppendUint64(dst, tok.Position())
}

// AppendPosition appends the position of a partition key within its table.
func AppendPosition(dst []byte, tok token.Token, pk []byte) []byte {
	return appendSized(AppendToken(dst, tok), pk)
}

// AppendPartition appends the common prefix of all keys of a logical partition.
func AppendPartition(dst []byte, table uint32, tok token.Token, pk []byte) []byte {
	return AppendPosition(binary.BigEndian.AppendUint32(dst, table), tok, pk)
}

// AppendDeletions appends the key of a partition's deletions.
func AppendDeletions(dst []byte, table uint32, tok token.Token, pk []byte) []byte {
	return append(AppendPartition(dst, table, tok, pk), Deletions)
}

// AppendRangeEnd appends the kind and rest of a deleted range to the prefix of its partition. The range ends before the
// clustering key end, or has no end if end is nil.
func AppendRangeEnd(prefix, end []byte) []byte {
	if end == nil {
		return append(prefix, Range, 1)
	}
	return append(append(prefix, Range, 0), end...)
}

// AppendRow appends the key of a row.
func AppendRow(dst []byte, table uint32, tok token.Token, pk, clustering []byte) []byte {
	dst = append(AppendPartition(dst, table, tok, pk), Row)
	return append(dst, clustering...)
}

// DedupeID identifies a command of a coordinator. Each pair of node and sequence is used only once.
type DedupeID struct {
	Coordinator [16]byte
	Sequence    uint64
}

// partNumbers is the upper limit of the numbers of batch parts. The sequence numbers that nodes assign to their
// commands are higher.
const partNumbers = 1 << 32

// MayBePart reports whether the ID can belong to a part of an atomic batch. The ID of a batch part consists of the
// batch ID and the part number.
func (id DedupeID) MayBePart() bool { return id.Sequence < partNumbers }

// DedupeIDOf returns the ID in the rest of a dedupe record's key.
func DedupeIDOf(rest []byte) (id DedupeID, ok bool) {
	if len(rest) != len(id.Coordinator)+8 {
		return id, false
	}
	copy(id.Coordinator[:], rest)
	id.Sequence = binary.BigEndian.Uint64(rest[len(id.Coordinator):])
	return id, true
}

// AppendDedupeID appends an ID in the form that DedupeIDOf reads.
func AppendDedupeID(dst []byte, id DedupeID) []byte {
	return binary.BigEndian.AppendUint64(append(dst, id.Coordinator[:]...), id.Sequence)
}

// AppendDedupe appends the key of a dedupe record.
func AppendDedupe(dst []byte, table uint32, tok token.Token, pk []byte, id DedupeID) []byte {
	return AppendDedupeID(append(AppendPartition(dst, table, tok, pk), Dedupe), id)
}

// AppendIndexValue appends the common prefix of all index entries with the given value.
func AppendIndexValue(dst []byte, index uint32, value []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, index|IndexSpace)
	if index&OrderedIndex == 0 {
		return appendSized(dst, value)
	}
	return append(appendEscaped(dst, value), 0, valueEnd)
}

// AppendIndexFrom appends the start of the entries of an ordered index whose values are greater than or equal to
// value.
func AppendIndexFrom(dst []byte, index uint32, value []byte) []byte {
	return appendEscaped(binary.BigEndian.AppendUint32(dst, index|IndexSpace), value)
}

// These bytes follow a zero byte in the value of an ordered index. They indicate whether the zero byte is part of the
// value or ends the value.
const (
	valueZero = 0xff
	valueEnd  = 1
)

// appendEscaped appends a value of an ordered index without its end mark.
func appendEscaped(dst, value []byte) []byte {
	for {
		n := bytes.IndexByte(value, 0)
		if n < 0 {
			return append(dst, value...)
		}
		dst = append(append(dst, value[:n+1]...), valueZero)
		value = value[n+1:]
	}
}

// escapedEnd returns the position after the end mark of the value of an ordered index that starts at pos. It returns 0
// if the value has no end mark.
func escapedEnd(key []byte, pos int) int {
	for {
		n := bytes.IndexByte(key[min(pos, len(key)):], 0)
		if n < 0 || pos+n+1 >= len(key) {
			return 0
		}
		switch pos += n + 2; key[pos-1] {
		case valueEnd:
			return pos
		case valueZero:
		default:
			return 0
		}
	}
}

// valueLen returns the length of the prefix that all entries with the same value as key share. It returns 0 if key is
// not an index entry.
func valueLen(key []byte) int {
	if ID(key)&OrderedIndex == 0 {
		return sizedEnd(key, idLen)
	}
	return escapedEnd(key, idLen)
}

// valueOf returns the value in the prefix of an entry.
func valueOf(prefix []byte) []byte {
	if ID(prefix)&OrderedIndex == 0 {
		return prefix[idLen+2 : len(prefix) : len(prefix)]
	}
	v := prefix[idLen : len(prefix)-2 : len(prefix)-2]
	if bytes.IndexByte(v, 0) < 0 {
		return v
	}
	return bytes.ReplaceAll(v, []byte{0, valueZero}, []byte{0})
}

// AppendIndex appends the key of an index entry. The entry means that the row may have the value. In a table with
// clustering columns, an empty clustering key represents the static row.
func AppendIndex(dst []byte, index uint32, value []byte, tok token.Token, pk, clustering []byte) []byte {
	dst = AppendPosition(AppendIndexValue(dst, index, value), tok, pk)
	return append(dst, clustering...)
}

// AppendTable appends the ID of a table or index. All keys of a table start with the table's ID. The ID of an index
// has the bit IndexSpace.
func AppendTable(dst []byte, id uint32) []byte { return binary.BigEndian.AppendUint32(dst, id) }

// AppendSystem appends a key with an ID below FirstTable.
func AppendSystem(dst []byte, id uint32, sub []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, id), sub...)
}

// AppendMeta appends the key of a physical partition's meta or registry record.
func AppendMeta(dst []byte, id uint32, partition uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, id), partition)
}

// ID returns the table or index ID of a key, or 0 if the key is too short.
func ID(key []byte) uint32 {
	if len(key) < idLen {
		return 0
	}
	return binary.BigEndian.Uint32(key)
}

// Parts is a decoded key of a table. Slices point into the key.
type Parts struct {
	Table uint32
	Token token.Token // the first 8 bytes of the position
	Low   uint64      // the remaining bytes of a position on the wide ring
	Key   []byte
	Kind  byte
	// Rest is the part of the key that doc.go calls "rest".
	Rest []byte
	// PrefixLen is the length of the common prefix of all keys of the logical partition.
	PrefixLen int
}

// PartitionLen returns the length of the partition prefix of a table's key. PartitionLen returns 0 if key is not a
// table key.
func PartitionLen(key []byte) int {
	if len(key) < idLen {
		return 0
	}
	id := binary.BigEndian.Uint32(key)
	if id&^WideRing&^WholeKey < FirstTable || id&IndexSpace != 0 {
		return 0
	}
	return sizedEnd(key, idLen+positionLen(id))
}

// sizedEnd returns the end of the length-prefixed bytes at pos, or 0 if the key is too short.
func sizedEnd(key []byte, pos int) int {
	if len(key) < pos+2 {
		return 0
	}
	end := pos + 2 + int(binary.BigEndian.Uint16(key[pos:]))
	if len(key) < end {
		return 0
	}
	return end
}

// Parse decodes a key of a table. ok is false for any other bytes.
func Parse(key []byte) (p Parts, ok bool) {
	end := PartitionLen(key)
	if end == 0 || end >= len(key) {
		return Parts{}, false
	}
	p.Table = binary.BigEndian.Uint32(key)
	p.Token = token.AtPosition(binary.BigEndian.Uint64(key[idLen:]))
	if p.Table&WideRing != 0 {
		p.Low = binary.BigEndian.Uint64(key[idLen+8:])
	}
	p.Key = key[idLen+positionLen(p.Table)+2 : end : end]
	p.Kind, p.Rest, p.PrefixLen = key[end], key[end+1:], end
	return p, true
}

// Entry is a decoded index entry. Slices point into the key. The exception is a value with zero bytes in an ordered
// index.
type Entry struct {
	Index      uint32 // the index ID without the bit IndexSpace
	Value      []byte
	Token      token.Token
	Low        uint64 // has the same meaning as in Parts
	Key        []byte
	Clustering []byte
	// ValueLen is the length of the key before the position.
	ValueLen int
}

// Position returns the position of the key's partition key in its table.
func (p *Parts) Position() Position {
	return Position{Ring: p.Token.Position(), Low: p.Low, Key: p.Key}
}

// Position returns the position of the row's partition key in its table.
func (e *Entry) Position() Position {
	return Position{Ring: e.Token.Position(), Low: e.Low, Key: e.Key}
}

// ParseIndex decodes the key of an index entry. ok is false for any other bytes.
func ParseIndex(key []byte) (e Entry, ok bool) {
	id := ID(key)
	if id&IndexSpace == 0 {
		return Entry{}, false
	}
	e.ValueLen = valueLen(key)
	if e.ValueLen == 0 {
		return Entry{}, false
	}
	if ok = e.parseRow(key[e.ValueLen:], positionLen(id)); ok {
		e.Index, e.Value = id&^IndexSpace, valueOf(key[:e.ValueLen])
	}
	return e, ok
}

// ParseIndexRow decodes the part after the value in the key of an index entry. ok is false for any other bytes. The
// index must not belong to a table on the wide ring.
func ParseIndexRow(place []byte) (e Entry, ok bool) {
	ok = e.parseRow(place, positionLen(0))
	return e, ok
}

// parseRow decodes the position and keys of an entry's row.
func (e *Entry) parseRow(b []byte, position int) bool {
	end := sizedEnd(b, position)
	if end == 0 {
		return false
	}
	e.Token = token.AtPosition(binary.BigEndian.Uint64(b))
	if position > 8 {
		e.Low = binary.BigEndian.Uint64(b[8:])
	}
	e.Key, e.Clustering = b[position+2:end:end], b[end:]
	return true
}

// After returns the first key after all keys with the prefix, or nil if no such key exists. It modifies prefix in
// place.
func After(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			prefix[i]++
			return prefix[:i+1]
		}
	}
	return nil
}
