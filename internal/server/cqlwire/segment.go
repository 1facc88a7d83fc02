// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// A segment of version 5 has the following format, with little-endian numbers:
//
//	uncompressed  17 bits length | 1 bit self-contained | 6 bits 0                                         | CRC24 | payload | CRC32
//	LZ4           17 bits length as sent | 17 bits uncompressed length | 1 bit self-contained | 5 bits 0   | CRC24 | payload | CRC32
//
// If the uncompressed length in the LZ4 form is 0, the payload is not compressed. According to the specification, the
// other length field has this meaning. However, Cassandra and its drivers behave as described here.
const (
	// SegmentPayloadMax is the maximum size of a payload, in bytes. It applies before and after compression.
	SegmentPayloadMax = 1<<17 - 1

	segmentHeaderPlain = 6
	segmentHeaderLZ4   = 8
	segmentTrailer     = 4
	// SegmentSizeMax is the maximum size of a segment, in bytes.
	SegmentSizeMax = segmentHeaderLZ4 + SegmentPayloadMax + segmentTrailer
)

var (
	errHeaderCRC  error = &dberr.Protocol{Message: "Read corrupt segment: CRC mismatch in its header"}
	errPayloadCRC error = &dberr.Protocol{Message: "Read corrupt segment: CRC mismatch in its payload"}
)

const (
	crc24Init = 0x875060
	crc24Poly = 0x1974F0B
)

var crc24Table = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 16
		for range 8 {
			c <<= 1
			if c&0x1000000 != 0 {
				c ^= crc24Poly
			}
		}
		t[i] = c & 0xffffff
	}
	return t
}()

// crc24 returns the checksum of the n low bytes of v. It starts with the lowest byte.
func crc24(v uint64, n int) uint32 {
	c := uint32(crc24Init)
	for range n {
		c = (c<<8)&0xffffff ^ crc24Table[byte(c>>16)^byte(v)]
		v >>= 8
	}
	return c
}

// crc32Init is the state of the checksum after the four bytes that Cassandra processes first. As a result, the
// checksum of a sequence of zeros is not zero.
var crc32Init = crc32.ChecksumIEEE([]byte{0xFA, 0x2D, 0x55, 0xCA})

func segmentCRC32(payload []byte) uint32 { return crc32.Update(crc32Init, crc32.IEEETable, payload) }

// Segment is a decoded segment.
type Segment struct {
	// Payload is the payload in the form in which it is sent. If UncompressedLen is greater than 0, Payload is
	// compressed.
	Payload         []byte
	UncompressedLen int
	// SelfContained is true if the payload contains only complete envelopes, and false if it is part of a single
	// envelope.
	SelfContained bool
}

// NextSegment decodes the segment at the start of b. size is the size of the segment. If b does not contain the
// complete segment, size is the minimum required size, and ok is false. After an error, the stream can no longer be
// decoded.
func NextSegment(b []byte, lz4 bool) (s Segment, size int, ok bool, err error) {
	head := segmentHeaderPlain
	if lz4 {
		head = segmentHeaderLZ4
	}
	if len(b) < head {
		return s, head, false, nil
	}
	var length int
	if lz4 {
		h := binary.LittleEndian.Uint64(b)
		if crc24(h, 5) != uint32(h>>40) {
			return s, 0, false, errHeaderCRC
		}
		length = int(h & SegmentPayloadMax)
		s.UncompressedLen = int(h >> 17 & SegmentPayloadMax)
		s.SelfContained = h&(1<<34) != 0
	} else {
		h := uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
		if crc24(h, 3) != uint32(h>>24) {
			return s, 0, false, errHeaderCRC
		}
		length = int(h & SegmentPayloadMax)
		s.SelfContained = h&(1<<17) != 0
	}
	size = head + length + segmentTrailer
	if len(b) < size {
		return s, size, false, nil
	}
	s.Payload = b[head : head+length : head+length]
	if segmentCRC32(s.Payload) != binary.LittleEndian.Uint32(b[head+length:]) {
		return s, 0, false, errPayloadCRC
	}
	return s, size, true, nil
}

// putSegmentHeader writes the header of a segment. length is the length of the payload as sent. uncompressed is
// used only for LZ4.
func putSegmentHeader(b []byte, lz4 bool, length, uncompressed int, selfContained bool) {
	self := uint64(0)
	if selfContained {
		self = 1
	}
	if lz4 {
		h := uint64(length) | uint64(uncompressed)<<17 | self<<34
		binary.LittleEndian.PutUint64(b, h|uint64(crc24(h, 5))<<40)
		return
	}
	h := uint64(length) | self<<17
	h |= uint64(crc24(h, 3)) << 24
	binary.LittleEndian.PutUint32(b, uint32(h))
	binary.LittleEndian.PutUint16(b[4:], uint16(h>>32))
}
