// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These are the supported protocol versions.
const (
	V3 = 3
	V4 = 4
	V5 = 5

	VersionMin = V3
	VersionMax = V5
)

// Versions lists the protocol versions in the form that SUPPORTED contains.
var Versions = []string{"3/v3", "4/v4", "5/v5"}

// HeaderSize is the length of the header of an envelope, in bytes.
const HeaderSize = 9

// FrameSizeMax is the default and the maximum of the body limit in bytes, as in Cassandra.
const FrameSizeMax = 256 << 20

// Opcode is the type of a message.
type Opcode uint8

// These are the opcodes.
const (
	OpError         Opcode = 0x00
	OpStartup       Opcode = 0x01
	OpReady         Opcode = 0x02
	OpAuthenticate  Opcode = 0x03
	OpOptions       Opcode = 0x05
	OpSupported     Opcode = 0x06
	OpQuery         Opcode = 0x07
	OpResult        Opcode = 0x08
	OpPrepare       Opcode = 0x09
	OpExecute       Opcode = 0x0A
	OpRegister      Opcode = 0x0B
	OpEvent         Opcode = 0x0C
	OpBatch         Opcode = 0x0D
	OpAuthChallenge Opcode = 0x0E
	OpAuthResponse  Opcode = 0x0F
	OpAuthSuccess   Opcode = 0x10
)

var opcodeNames = map[Opcode]string{
	OpError: "ERROR", OpStartup: "STARTUP", OpReady: "READY", OpAuthenticate: "AUTHENTICATE", OpOptions: "OPTIONS",
	OpSupported: "SUPPORTED", OpQuery: "QUERY", OpResult: "RESULT", OpPrepare: "PREPARE", OpExecute: "EXECUTE",
	OpRegister: "REGISTER", OpEvent: "EVENT", OpBatch: "BATCH", OpAuthChallenge: "AUTH_CHALLENGE",
	OpAuthResponse: "AUTH_RESPONSE", OpAuthSuccess: "AUTH_SUCCESS",
}

// String returns Cassandra's name of the opcode in messages.
func (o Opcode) String() string {
	if s, ok := opcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("OPCODE(0x%02X)", uint8(o))
}

// These are the header flags.
const (
	FlagCompressed byte = 0x01
	FlagTracing    byte = 0x02
	FlagPayload    byte = 0x04
	FlagWarning    byte = 0x08
	FlagBeta       byte = 0x10
)

// Header is the header of an envelope.
type Header struct {
	// Version does not include the direction bit, which is in Response.
	Version  uint8
	Response bool
	Flags    byte
	Stream   int16
	Opcode   Opcode
	// Length is the length of the body in bytes. Negative values are preserved.
	Length int32
}

// ParseHeader decodes a header but does not validate it. b must contain at least HeaderSize bytes.
func ParseHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		Version:  b[0] & 0x7f,
		Response: b[0]&0x80 != 0,
		Flags:    b[1],
		Stream:   int16(binary.BigEndian.Uint16(b[2:])),
		Opcode:   Opcode(b[4]),
		Length:   int32(binary.BigEndian.Uint32(b[5:])),
	}
}

// AppendHeader appends a header.
func AppendHeader(dst []byte, h Header) []byte {
	v := h.Version
	if h.Response {
		v |= 0x80
	}
	dst = append(dst, v, h.Flags, byte(uint16(h.Stream)>>8), byte(h.Stream), byte(h.Opcode))
	return binary.BigEndian.AppendUint32(dst, uint32(h.Length))
}

// BadVersion returns the error for an unsupported protocol version. The text is the same as in Cassandra, because
// drivers match parts of the text. The text mentions the beta of version 6, although Cassandra and Ilion reject that
// version without the beta flag.
func BadVersion(version uint8) error {
	return dberr.Protocolf("Invalid or unsupported protocol version (%d); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)",
		version)
}
