// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// A hello is the first message of each side. The dialer sends the first hello. The other side responds with a hello
// that contains its verdict.
//
//	"ilion", class u8, least version u8, greatest version u8, length of the body u16
//	body: status u8, cluster id 16, node id 16, node id meant 16 (0: any), feature levels u16 to u16, incarnation u64,
//	      address (length u8), text of a refusal (length u16), history of the data directory (length u16), then additions of newer versions
//	CRC32C of all of it u32
//
// The format of the head and the status never changes, so a node can send a valid rejection to a node of any other
// version.
const (
	magic        = "ilion"
	helloHead    = len(magic) + 5
	helloFixed   = 1 + 3*16 + 4 + 8
	helloBodyMax = 4096
	addressMax   = 255
	textMax      = 1024
	lineageMax   = 1024
)

// These are the protocol versions that this package supports.
const (
	VersionMin = 1
	Version    = 1
)

// Class is the kind of data on a stream.
type Class uint8

// These are the classes of streams.
const (
	Raft     Class = 'r'
	Snapshot Class = 's'
	Command  Class = 'c'
)

func (c Class) String() string {
	switch c {
	case Raft:
		return "raft"
	case Snapshot:
		return "snapshot"
	case Command:
		return "command"
	case classIdentify:
		return "ask"
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// ClusterID is the ID of a cluster.
type ClusterID [16]byte

type hello struct {
	class         Class
	least, most   uint8
	status        status
	cluster       ClusterID
	node, to      NodeID
	levels        feature.Range
	incarnation   uint64
	address, text string
	history       string
}

func (h *hello) append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, byte(h.class), h.least, h.most, 0, 0)
	body := len(dst)
	dst = append(dst, byte(h.status))
	dst = append(dst, h.cluster[:]...)
	dst = append(dst, h.node[:]...)
	dst = append(dst, h.to[:]...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.levels.Oldest))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.levels.Newest))
	dst = binary.LittleEndian.AppendUint64(dst, h.incarnation)
	dst = append(append(dst, byte(len(h.address))), h.address...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(h.text)))
	dst = append(dst, h.text...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(h.history)))
	dst = append(dst, h.history...)
	binary.LittleEndian.PutUint16(dst[body-2:], uint16(len(dst)-body))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// readHello reads exactly one hello.
func readHello(r io.Reader) (h hello, err error) {
	buf := make([]byte, helloHead, 512)
	if _, err := io.ReadFull(r, buf); err != nil {
		return h, err
	}
	if string(buf[:len(magic)]) != magic {
		return h, fmt.Errorf("%w: it begins with %q", ErrHandshake, buf[:len(magic)])
	}
	h.class, h.least, h.most = Class(buf[5]), buf[6], buf[7]
	n := int(binary.LittleEndian.Uint16(buf[8:]))
	if n < 1 || n > helloBodyMax {
		return h, fmt.Errorf("%w: body of %d bytes", ErrHandshake, n)
	}
	buf = append(buf, make([]byte, n+4)...)
	if _, err := io.ReadFull(r, buf[helloHead:]); err != nil {
		return h, err
	}
	end := helloHead + n
	if sum := crc32.Checksum(buf[:end], castagnoli); sum != binary.LittleEndian.Uint32(buf[end:]) {
		return h, fmt.Errorf("%w: checksum mismatch", ErrHandshake)
	}
	if err := h.parseBody(buf[helloHead:end]); err != nil && overlap(h.least, h.most) {
		return h, err
	}
	return h, nil
}

// parseBody parses as much of the body as possible, because an unknown version may have another layout.
func (h *hello) parseBody(b []byte) error {
	h.status = status(b[0])
	if len(b) < helloFixed+1 {
		return fmt.Errorf("%w: body of %d bytes", ErrHandshake, len(b))
	}
	copy(h.cluster[:], b[1:])
	copy(h.node[:], b[17:])
	copy(h.to[:], b[33:])
	h.levels.Oldest = feature.Level(binary.LittleEndian.Uint16(b[49:]))
	h.levels.Newest = feature.Level(binary.LittleEndian.Uint16(b[51:]))
	h.incarnation = binary.LittleEndian.Uint64(b[53:])
	n := int(b[helloFixed])
	b = b[helloFixed+1:]
	if len(b) < n+2 {
		return fmt.Errorf("%w: address of %d bytes", ErrHandshake, n)
	}
	h.address = string(b[:n])
	text := int(binary.LittleEndian.Uint16(b[n:]))
	if b = b[n+2:]; len(b) < text || text > textMax {
		return fmt.Errorf("%w: text of %d bytes", ErrHandshake, text)
	}
	h.text = string(b[:text])
	if b = b[text:]; len(b) < 2 {
		return fmt.Errorf("%w: it ends before the start history", ErrHandshake)
	}
	length := int(binary.LittleEndian.Uint16(b))
	if b = b[2:]; len(b) < length || length > lineageMax {
		return fmt.Errorf("%w: start history of %d bytes", ErrHandshake, length)
	}
	h.history = string(b[:length])
	return nil
}

// overlap reports whether this package supports at least one version between least and most.
func overlap(least, most uint8) bool { return least <= Version && most >= VersionMin && least <= most }

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
