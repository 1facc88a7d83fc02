// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// chunks is the sending side of a snapshot, which the sender divides into chunks.
type chunks struct {
	r    io.ReaderAt
	size int64
	// sums holds the checksums of the bytes before every chunk that has been read. The end frame contains the checksum
	// of the whole snapshot, regardless of the offset at which an attempt starts.
	sums []uint32
}

func newChunks(r io.ReaderAt, size int64) chunks { return chunks{r, size, []uint32{0}} }

// read reads the n-th chunk into the buffer chunk, and stores the checksum up to the end of the chunk. The last chunk
// may be shorter than the buffer.
func (c *chunks) read(chunk []byte, n int64) ([]byte, error) {
	at := n * int64(len(chunk))
	b := chunk[:min(int64(len(chunk)), c.size-at)]
	if got, err := c.r.ReadAt(b, at); got < len(b) {
		return nil, fmt.Errorf("read snapshot at %d of %d: %w", at, c.size, err)
	}
	if n+1 == int64(len(c.sums)) {
		c.sums = append(c.sums, crc32.Update(c.sums[n], castagnoli, b))
	}
	return b, nil
}

// goTo returns the number of the chunk at the receiver's offset. It reads all previous bytes that the checksum
// requires. The offset must be a multiple of the chunk size or the size of the snapshot.
func (c *chunks) goTo(from int64, chunk []byte) (next int64, err error) {
	step := int64(len(chunk))
	if from < 0 || from > c.size {
		return 0, fmt.Errorf("%w: the receiver of %d bytes is at offset %d", ErrFrame, c.size, from)
	}
	for n := int64(len(c.sums)) - 1; n*step < from; n++ {
		if _, err := c.read(chunk, n); err != nil {
			return 0, err
		}
	}
	if from%step != 0 && from != c.size {
		return 0, fmt.Errorf("%w: receiver offset %d is inside a chunk", ErrFrame, from)
	}
	return (from + step - 1) / step, nil
}

// sum returns the checksum of the snapshot. The whole snapshot must have been read.
func (c *chunks) sum() uint32 { return c.sums[len(c.sums)-1] }

// reassembly is the receiving side of a snapshot.
type reassembly struct {
	size, offset int64
	sum          uint32
}

// add adds a chunk.
func (a *reassembly) add(offset int64, b []byte) error {
	if offset != a.offset || int64(len(b)) > a.size-offset {
		return fmt.Errorf("%w: chunk of %d bytes at %d, want %d of %d", ErrFrame, len(b), offset, a.offset, a.size)
	}
	a.sum = crc32.Update(a.sum, castagnoli, b)
	a.offset += int64(len(b))
	return nil
}

// whole returns an error unless the complete snapshot has arrived.
func (a *reassembly) whole(sum uint32) error {
	if a.offset != a.size || sum != a.sum {
		return fmt.Errorf("%w: %d of %d bytes, checksum %08x, want %08x", ErrSnapshot, a.offset, a.size, a.sum, sum)
	}
	return nil
}

// Shipment contains both ends of a snapshot transfer over one or more connections. Callers that transfer the bytes by
// other means use it. It processes the bytes like SendSnapshot and the receiver, and never blocks.
type Shipment struct {
	out   chunks
	in    reassembly
	chunk []byte
}

// NewShipment returns a transfer of the first size bytes of r in chunks of chunkBytes.
func NewShipment(r io.ReaderAt, size int64, chunkBytes int) *Shipment {
	return &Shipment{newChunks(r, size), reassembly{size: size}, make([]byte, chunkBytes)}
}

// Connect returns the first frames of a new connection. The frames start at the end of the previous connection.
func (s *Shipment) Connect() (frames [][]byte, err error) {
	n, err := s.out.goTo(s.in.offset, s.chunk)
	if err != nil {
		return nil, err
	}
	for step := int64(len(s.chunk)); n*step < s.out.size; n++ {
		b, err := s.out.read(s.chunk, n)
		if err != nil {
			return nil, err
		}
		head := chunkHead(n * step)
		frames = append(frames, appendFrame(nil, kindSnapshotChunk, head[:], b))
	}
	end := sumBytes(s.out.sum())
	return append(frames, appendFrame(nil, kindSnapshotEnd, end[:], nil)), nil
}

// Take processes a frame at the receiver and returns the snapshot bytes in the frame. It returns io.EOF at the end of a
// complete snapshot.
func (s *Shipment) Take(f Frame) ([]byte, error) {
	switch b := f.payload; {
	case f.kind == kindSnapshotChunk && len(b) >= 8:
		return b[8:], s.in.add(int64(binary.LittleEndian.Uint64(b)), b[8:])
	case f.kind == kindSnapshotEnd && len(b) == 4:
		return nil, errors.Join(s.in.whole(binary.LittleEndian.Uint32(b)), io.EOF)
	}
	return nil, malformed(f.kind, len(f.payload))
}

// chunkHead returns the header of a chunk at an offset.
func chunkHead(offset int64) (head [8]byte) {
	binary.LittleEndian.PutUint64(head[:], uint64(offset))
	return head
}

// sumBytes returns the encoded checksum of the snapshot.
func sumBytes(sum uint32) (b [4]byte) {
	binary.LittleEndian.PutUint32(b[:], sum)
	return b
}
