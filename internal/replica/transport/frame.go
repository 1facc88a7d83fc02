// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// After the handshake, a frame in protocol version 1 has the following format. All numbers are little-endian:
//
//	length of the payload u32, kind u8, CRC32C of these five bytes u32, CRC32C of the payload u32, payload
//
// The separate checksum of the head protects the reader from a wrong length, which would make the reader treat later
// frames as payload.
const headLen = 13

// These are the kinds of frames.
const (
	kindKeepAlive      = 1  // empty; sent in every class and in both directions
	kindRaft           = 2  // bytes from the Raft host
	kindSnapshotBegin  = 3  // sequence u64, size u64
	kindSnapshotOffset = 4  // offset u64 at which to continue; sent to the sender
	kindSnapshotChunk  = 5  // offset u64, bytes
	kindSnapshotEnd    = 6  // CRC32C of the snapshot u32
	kindResult         = 7  // status u8, text; sent to the sender of a snapshot
	kindRequest        = 8  // id u64, microseconds left u64 (0: no deadline), pages ahead u8, request
	kindCancel         = 9  // id u64
	kindCredit         = 10 // id u64; credit for one more page
	kindPage           = 11 // id u64, bytes; more pages follow
	kindLast           = 12 // id u64, bytes; the last page
	kindFail           = 13 // id u64, status u8, text
	kindDepart         = 14 // empty; on a Raft connection; see Transport.Depart
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameHead returns the head of a frame whose payload is a followed by b. a must be short.
func frameHead(kind byte, a, b []byte) (head [headLen]byte) {
	binary.LittleEndian.PutUint32(head[:], uint32(len(a)+len(b)))
	head[4] = kind
	binary.LittleEndian.PutUint32(head[5:], shortSum(0, head[:5]))
	binary.LittleEndian.PutUint32(head[9:], crc32.Update(shortSum(0, a), castagnoli, b))
	return head
}

// shortSum is equivalent to crc32.Update for a few bytes, but does not make b escape to the heap.
func shortSum(sum uint32, b []byte) uint32 {
	sum = ^sum
	for _, c := range b {
		sum = castagnoli[byte(sum)^c] ^ sum>>8
	}
	return ^sum
}

func appendFrame(dst []byte, kind byte, a, b []byte) []byte {
	head := frameHead(kind, a, b)
	return append(append(append(dst, head[:]...), a...), b...)
}

// frameReader reads frames from a stream.
type frameReader struct {
	r   *bufio.Reader
	max int
	// reuse is the buffer for payloads, or nil. If reuse is not nil, a payload is valid only until the next call.
	reuse []byte
}

// readStep is the maximum memory that is allocated for announced bytes before they arrive.
const readStep = 256 << 10

// next returns the next frame. It returns io.EOF only if the stream ends between two frames.
func (f *frameReader) next() (kind byte, payload []byte, err error) {
	head, err := f.r.Peek(headLen)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	n := int64(binary.LittleEndian.Uint32(head))
	kind = head[4]
	want := binary.LittleEndian.Uint32(head[9:])
	if got := crc32.Update(0, castagnoli, head[:5]); got != binary.LittleEndian.Uint32(head[5:]) {
		return 0, nil, fmt.Errorf("%w: checksum %08x of the header % x", ErrFrame, got, head)
	}
	if n > int64(f.max) {
		return 0, nil, fmt.Errorf("%w: length %d of kind %d, at most %d", ErrFrame, n, kind, f.max)
	}
	_, _ = f.r.Discard(headLen)
	payload = f.reuse[:0]
	if f.reuse == nil && n > 0 {
		payload = make([]byte, 0, min(n, readStep))
	}
	for int64(len(payload)) < n {
		from := len(payload)
		step := int(min(n-int64(from), readStep))
		payload = grow(payload, step, int(n))
		if _, err := io.ReadFull(f.r, payload[from:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
	if f.reuse != nil {
		f.reuse = payload[:0]
	}
	if sum := crc32.Update(0, castagnoli, payload); sum != want {
		return 0, nil, fmt.Errorf("%w: checksum %08x of kind %d, want %08x", ErrFrame, sum, kind, want)
	}
	return kind, payload, nil
}

// grow lengthens b by n bytes. It allocates up to twice the current length and up to limit bytes.
func grow(b []byte, n, limit int) []byte {
	if need := len(b) + n; need > cap(b) {
		grown := make([]byte, len(b), max(need, min(2*cap(b), limit)))
		copy(grown, b)
		b = grown
	}
	return b[:len(b)+n]
}

func malformed(kind byte, n int) error {
	return fmt.Errorf("%w: unexpected frame of kind %d with %d bytes", ErrFrame, kind, n)
}
