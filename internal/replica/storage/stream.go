// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/golang/snappy"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// A snapshot is transferred as keys and values instead of sstables, so that two nodes can have different versions of
// Pebble:
//
//	magic        "ilionsnp", format u8
//	chunk        kind u8, size u32, stored u32, CRC-32C u32 of the 9 bytes before and the payload; payload of stored bytes,
//	             compressed with Snappy if stored < size
//	  head       flags, estimated size, meta: see streamHead
//	  records    in ascending order of keys, over all chunks: length of the prefix that the key shares with the previous key in the chunk,
//	             length of its rest, length of the value, rest, value
//	  large      a record that is too large for one chunk: length of its key, length of its value, key, first part of the value
//	  part       another part of the value of that record, until it is complete
//	  end        numbers of chunks before it and of records
//
// Fixed-width integers are little-endian, and all other integers are uvarints.
const (
	streamMagic  = "ilionsnp"
	streamFormat = 2

	chunkHead    byte = 1
	chunkRecords byte = 2
	chunkEnd     byte = 3
	chunkLarge   byte = 4
	chunkPart    byte = 5

	chunkHeadLen = 13
	// chunkBytes is the size, in bytes, at which a chunk is written.
	chunkBytes = 256 << 10
	// partBytes is the maximum length of a value in one chunk. A record with a longer value is written in several
	// parts.
	partBytes = 4 << 20
	// chunkBytesMax is the maximum size of a chunk. A chunk may contain records of nearly chunkBytes and one more
	// record with a value of partBytes.
	chunkBytesMax = partBytes + 1<<20
	// valueBytesMax is the maximum size of a value. A store contains no larger values.
	valueBytesMax = 1<<32 - 1
	// expansionMax is the maximum ratio of size to stored size. It exceeds the ratio of Snappy, which expands 3 bytes
	// to at most 64 bytes. A chunk with a larger ratio is rejected before memory is allocated.
	expansionMax = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamHead is the head of a snapshot.
type streamHead struct {
	// flags are the flags of the table.
	flags    uint32
	estimate uint64
	meta     keys.Meta
}

func (h *streamHead) append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(h.flags))
	w.Uint(h.estimate)
	return h.meta.Append(w)
}

func (h *streamHead) decode(b []byte) error {
	r := codec.NewReader(b, fmt.Errorf("%w: its header is damaged", ErrBadSnapshot))
	flags, estimate := r.Uint32(), r.Uint()
	if err := r.Err(); err != nil {
		return err
	}
	if flags&^flagsKnown != 0 {
		return fmt.Errorf("%w: flags %x", ErrBadSnapshot, flags)
	}
	meta, err := keys.DecodeMeta(r.Rest())
	if err != nil {
		//nolint:errorlint // err is not wrapped, because it is not damage of this store
		return fmt.Errorf("%w: %v", ErrBadSnapshot, err)
	}
	*h = streamHead{flags, estimate, meta}
	return nil
}

// streamWriter writes a snapshot.
type streamWriter struct {
	w io.Writer
	// size is the number of bytes written.
	size            int64
	chunks, records uint64
	raw, out        []byte
	key             []byte
}

func (w *streamWriter) begin(h *streamHead) error {
	n, err := w.w.Write(append([]byte(streamMagic), streamFormat))
	w.size += int64(n)
	if err != nil {
		return err
	}
	w.raw = h.append(w.raw[:0])
	return w.chunk(chunkHead)
}

// add adds a record. full reports whether add has written a chunk.
func (w *streamWriter) add(key, value []byte) (full bool, err error) {
	if len(value) > partBytes {
		return true, w.large(key, value)
	}
	shared := 0
	if len(w.raw) > 0 {
		shared = sharedLen(w.key, key)
	}
	w.raw = binary.AppendUvarint(w.raw, uint64(shared))
	w.raw = binary.AppendUvarint(w.raw, uint64(len(key)-shared))
	w.raw = binary.AppendUvarint(w.raw, uint64(len(value)))
	w.raw = append(append(w.raw, key[shared:]...), value...)
	w.key = append(w.key[:0], key...)
	w.records++
	if len(w.raw) < chunkBytes {
		return false, nil
	}
	return true, w.chunk(chunkRecords)
}

// large writes a record in several parts.
func (w *streamWriter) large(key, value []byte) error {
	if err := w.flush(); err != nil {
		return err
	}
	w.records++
	w.raw = binary.AppendUvarint(w.raw, uint64(len(key)))
	w.raw = binary.AppendUvarint(w.raw, uint64(len(value)))
	w.raw = append(w.raw, key...)
	kind := chunkLarge
	for part := range slices.Chunk(value, partBytes) {
		w.raw = append(w.raw, part...)
		if err := w.chunk(kind); err != nil {
			return err
		}
		kind = chunkPart
	}
	return nil
}

// flush writes the buffered records.
func (w *streamWriter) flush() error {
	if len(w.raw) == 0 {
		return nil
	}
	return w.chunk(chunkRecords)
}

func sharedLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func (w *streamWriter) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.raw = binary.AppendUvarint(w.raw, w.chunks)
	w.raw = binary.AppendUvarint(w.raw, w.records)
	return w.chunk(chunkEnd)
}

// chunk writes the content of raw as one chunk.
func (w *streamWriter) chunk(kind byte) error {
	invariant.Check(len(w.raw) <= chunkBytesMax, "ST5: a chunk of %d bytes", len(w.raw))
	w.out = resized(w.out, chunkHeadLen+snappy.MaxEncodedLen(len(w.raw)))
	payload := snappy.Encode(w.out[chunkHeadLen:], w.raw)
	if len(payload) >= len(w.raw) {
		payload = w.out[chunkHeadLen:][:copy(w.out[chunkHeadLen:], w.raw)]
	}
	head := w.out[:chunkHeadLen]
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(w.raw)))
	binary.LittleEndian.PutUint32(head[5:], uint32(len(payload)))
	sum := crc32.Update(crc32.Checksum(head[:9], castagnoli), castagnoli, payload)
	binary.LittleEndian.PutUint32(head[9:], sum)
	n, err := w.w.Write(w.out[:chunkHeadLen+len(payload)])
	w.size += int64(n)
	w.chunks++
	w.raw = shrunk(w.raw)[:0]
	w.out = shrunk(w.out)
	return err
}

// resized returns a slice of n bytes. It reuses b if b is large enough.
func resized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// shrunk releases memory that was needed only for one very large row.
func shrunk(b []byte) []byte {
	if cap(b) > 4*chunkBytes {
		return nil
	}
	return b
}

// streamReader reads a snapshot. Every error that is caused by the content of the snapshot wraps ErrBadSnapshot.
type streamReader struct {
	r io.Reader
	// size is the number of bytes read.
	size            int64
	chunks, records uint64
	stored          bytes.Buffer
	plain           []byte
	key             []byte
}

func (r *streamReader) begin(h *streamHead) error {
	var magic [len(streamMagic) + 1]byte
	if _, err := io.ReadFull(r.r, magic[:]); err != nil {
		return cutOff(err)
	}
	r.size += int64(len(magic))
	if string(magic[:len(streamMagic)]) != streamMagic {
		return fmt.Errorf("%w: it is not a snapshot", ErrBadSnapshot)
	}
	if v := magic[len(streamMagic)]; v != streamFormat {
		newer := &feature.Newer{What: "the snapshot", Unit: "format", Has: uint64(v), Oldest: streamFormat,
			Newest: streamFormat}
		if v < streamFormat {
			return fmt.Errorf("%w: it has format %d, which is too old", ErrBadSnapshot, v)
		}
		return fmt.Errorf("%w: %w", ErrBadSnapshot, newer)
	}
	kind, b, err := r.chunk()
	if err == nil && kind != chunkHead {
		err = fmt.Errorf("%w: its header is missing", ErrBadSnapshot)
	}
	if err != nil {
		return err
	}
	return h.decode(b)
}

// next calls fn for the records of the next chunk. more is false at the end of the snapshot. Keys are valid only during
// the call of fn.
func (r *streamReader) next(fn func(key, value []byte) error) (more bool, err error) {
	kind, b, err := r.chunk()
	if err != nil {
		return false, err
	}
	switch kind {
	case chunkRecords:
		return true, r.each(b, fn)
	case chunkLarge:
		return true, r.large(b, fn)
	case chunkEnd:
		end := codec.NewReader(b, ErrBadSnapshot)
		chunks, records := end.Uint(), end.Uint()
		if end.Err() != nil || chunks != r.chunks-1 || records != r.records {
			return false, fmt.Errorf("%w: it is incomplete", ErrBadSnapshot)
		}
		return false, nil
	}
	return false, fmt.Errorf("%w: chunk of kind %d", ErrBadSnapshot, kind)
}

// large assembles a large record from its parts.
func (r *streamReader) large(b []byte, fn func(key, value []byte) error) error {
	head := codec.NewReader(b, fmt.Errorf("%w: undecodable record", ErrBadSnapshot))
	keyLen, size := head.Uint(), head.Uint()
	key := bytes.Clone(head.Take(keyLen))
	if err := head.Err(); err != nil {
		return err
	}
	if size > valueBytesMax {
		return fmt.Errorf("%w: a value of %d bytes", ErrBadSnapshot, size)
	}
	value := bytes.Clone(head.Rest()) // memory grows with the received data
	for uint64(len(value)) < size {
		kind, part, err := r.chunk()
		if err != nil {
			return err
		}
		if kind != chunkPart || len(part) == 0 {
			return fmt.Errorf("%w: chunk of kind %d within a record", ErrBadSnapshot, kind)
		}
		value = append(value, part...)
	}
	if uint64(len(value)) != size {
		return fmt.Errorf("%w: undecodable record", ErrBadSnapshot)
	}
	r.records++
	return fn(key, value)
}

// each calls fn for the records of a chunk. For speed, it does not use a codec.Reader.
func (r *streamReader) each(b []byte, fn func(key, value []byte) error) error {
	r.key = r.key[:0]
	for len(b) > 0 {
		var lens [3]uint64
		for i := range lens {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return fmt.Errorf("%w: undecodable record", ErrBadSnapshot)
			}
			lens[i], b = v, b[n:]
		}
		shared, rest, size := lens[0], lens[1], lens[2]
		if shared > uint64(len(r.key)) || rest > uint64(len(b)) || size > uint64(len(b))-rest {
			return fmt.Errorf("%w: undecodable record", ErrBadSnapshot)
		}
		r.key = append(r.key[:shared], b[:rest]...)
		r.records++
		if err := fn(r.key, b[rest:rest+size]); err != nil {
			return err
		}
		b = b[rest+size:]
	}
	return nil
}

// chunk reads and verifies a chunk. b is valid until the next call.
func (r *streamReader) chunk() (kind byte, b []byte, err error) {
	var head [chunkHeadLen]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return 0, nil, cutOff(err)
	}
	size, stored := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
	if size > chunkBytesMax || stored > size {
		return 0, nil, fmt.Errorf("%w: chunk of %d bytes", ErrBadSnapshot, size)
	}
	if r.stored.Cap() > 4*chunkBytes {
		r.stored = bytes.Buffer{}
	}
	r.stored.Reset()
	if _, err := io.CopyN(&r.stored, r.r, int64(stored)); err != nil { // memory grows with the received data
		return 0, nil, cutOff(err)
	}
	b = r.stored.Bytes()
	if crc32.Update(crc32.Checksum(head[:9], castagnoli), castagnoli, b) != binary.LittleEndian.Uint32(head[9:]) {
		return 0, nil, fmt.Errorf("%w: checksum mismatch in chunk %d", ErrBadSnapshot, r.chunks)
	}
	if stored < size {
		if n, err := snappy.DecodedLen(b); err != nil || n != int(size) || n > len(b)*expansionMax {
			return 0, nil, fmt.Errorf("%w: chunk %d cannot be decompressed", ErrBadSnapshot, r.chunks)
		}
		r.plain = resized(shrunk(r.plain), int(size))
		if b, err = snappy.Decode(r.plain, b); err != nil {
			return 0, nil, fmt.Errorf("%w: chunk %d: %w", ErrBadSnapshot, r.chunks, err)
		}
	}
	r.chunks++
	r.size += chunkHeadLen + int64(stored)
	return head[0], b, nil
}

// cutOff converts the error of a stream that ends before the end of the snapshot. It returns all other errors
// unchanged.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is truncated", ErrBadSnapshot)
	}
	return err
}
