// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// chunks are a snapshot as its sender cuts it, over one connection after another.
type chunks struct {
	r    io.ReaderAt
	size int64
	// sums are the checksums of the bytes before every chunk, as far as they were read: the end needs that of the
	// whole, wherever an attempt begins.
	sums []uint32
}

func newChunks(r io.ReaderAt, size int64) chunks { return chunks{r, size, []uint32{0}} }

// read reads the n-th chunk, of the length of chunk or up to the end, and notes the checksum of everything up to its
// end.
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

// goTo reads what the checksum needs of the bytes before an offset where the receiver stands, and returns the chunk
// that comes next. The receiver stands between two chunks, or at the end; it may have more than this node knows of, and
// less.
func (c *chunks) goTo(from int64, chunk []byte) (next int64, err error) {
	step := int64(len(chunk))
	if from < 0 || from > c.size {
		return 0, fmt.Errorf("%w: receiver of %d bytes stands at %d", ErrFrame, c.size, from)
	}
	for n := int64(len(c.sums)) - 1; n*step < from; n++ {
		if _, err := c.read(chunk, n); err != nil {
			return 0, err
		}
	}
	if from%step != 0 && from != c.size {
		return 0, fmt.Errorf("%w: receiver stands at %d, within a chunk", ErrFrame, from)
	}
	return (from + step - 1) / step, nil
}

// sum is the checksum of the whole, when all of it was read.
func (c *chunks) sum() uint32 { return c.sums[len(c.sums)-1] }

// arrival is a snapshot as it arrives.
type arrival struct {
	size, offset int64
	sum          uint32
}

// add takes a chunk.
func (a *arrival) add(offset int64, b []byte) error {
	if offset != a.offset || int64(len(b)) > a.size-offset {
		return fmt.Errorf("%w: chunk of %d bytes at %d, want %d of %d", ErrFrame, len(b), offset, a.offset, a.size)
	}
	a.sum = crc32.Update(a.sum, castagnoli, b)
	a.offset += int64(len(b))
	return nil
}

// whole reports whether everything came that the sender has sent.
func (a *arrival) whole(sum uint32) error {
	if a.offset != a.size || sum != a.sum {
		return fmt.Errorf("%w: %d of %d bytes, checksum %08x, want %08x", ErrSnapshot, a.offset, a.size, a.sum, sum)
	}
	return nil
}

// Shipment is a snapshot on its way over one connection after another, both ends of it, for whoever carries the bytes
// by other means. It does what SendSnapshotFrom and its receiver do with the bytes; it waits for nothing.
type Shipment struct {
	out   chunks
	in    arrival
	chunk []byte
}

// NewShipment sends size bytes of r in chunks of so many bytes.
func NewShipment(r io.ReaderAt, size int64, chunkBytes int) *Shipment {
	return &Shipment{newChunks(r, size), arrival{size: size}, make([]byte, chunkBytes)}
}

// Connect returns the frames of a connection that begins where the last one ended.
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

// Take takes a frame at the receiver and returns the bytes of the snapshot in it, and io.EOF at the end of one that is
// whole.
func (s *Shipment) Take(f Frame) ([]byte, error) {
	switch b := f.payload; {
	case f.kind == kindSnapshotChunk && len(b) >= 8:
		return b[8:], s.in.add(int64(binary.LittleEndian.Uint64(b)), b[8:])
	case f.kind == kindSnapshotEnd && len(b) == 4:
		return nil, errors.Join(s.in.whole(binary.LittleEndian.Uint32(b)), io.EOF)
	}
	return nil, malformed(f.kind, len(f.payload))
}

// chunkHead stands before a chunk that begins at an offset.
func chunkHead(offset int64) (head [8]byte) {
	binary.LittleEndian.PutUint64(head[:], uint64(offset))
	return head
}

// sumBytes is the checksum of the whole as it is sent.
func sumBytes(sum uint32) (b [4]byte) {
	binary.LittleEndian.PutUint32(b[:], sum)
	return b
}
