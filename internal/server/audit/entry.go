// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Entry describes a completed request.
type Entry struct {
	// User is the role. It is empty if no login is required. Source is the address of the client. Host is the address
	// to which the client has connected.
	User         string
	Host, Source netip.AddrPort
	At           time.Time
	// Type and Category are Cassandra's terms.
	Type, Category  string
	Keyspace, Table string
	// Operation is the statement without passwords.
	Operation string
	// Err is nil if the request succeeded. Status is the HTTP status. For other protocols, it is 0.
	Err    error
	Status int
}

// append appends the entry in the format of Cassandra's file logger. It adds the outcome.
func (e *Entry) append(dst []byte) []byte {
	user := e.User
	if user == "" {
		user = "anonymous"
	}
	dst = field(append(dst, "user:"...), user)
	dst = append(append(dst, "|host:"...), e.Host.String()...)
	dst = append(append(dst, "|source:/"...), e.Source.Addr().String()...)
	dst = strconv.AppendUint(append(dst, "|port:"...), uint64(e.Source.Port()), 10)
	dst = strconv.AppendInt(append(dst, "|timestamp:"...), e.At.UnixMilli(), 10)
	dst = append(append(dst, "|type:"...), e.Type...)
	dst = append(append(dst, "|category:"...), e.Category...)
	if e.Keyspace != "" {
		dst = field(append(dst, "|ks:"...), e.Keyspace)
	}
	if e.Table != "" {
		dst = field(append(dst, "|scope:"...), e.Table)
	}
	switch {
	case e.Status >= 400:
		dst = strconv.AppendInt(append(dst, "|outcome:"...), int64(e.Status), 10)
	case e.Err == nil:
		dst = append(dst, "|outcome:ok"...)
	default:
		code := binary.BigEndian.Uint32(cqlwire.AppendError(nil, cqlwire.V5, e.Err))
		dst = append(dst, "|outcome:0x"...)
		for shift := 12; shift >= 0; shift -= 4 {
			dst = append(dst, "0123456789ABCDEF"[code>>shift&0xf])
		}
	}
	if e.Operation != "" {
		dst = text(append(dst, "|operation:"...), e.Operation)
	}
	return append(dst, '\n')
}

// field appends a value that ends at the next vertical bar.
func field(dst []byte, s string) []byte {
	from := len(dst)
	dst = text(dst, s)
	for i := from; i < len(dst); i++ {
		if dst[i] == '|' {
			dst[i] = '/'
		}
	}
	return dst
}

// textMax is the maximum size of the statement in an entry, in bytes.
const textMax = 64 << 10

// text appends a value on one line.
func text(dst []byte, s string) []byte {
	for i := range min(len(s), textMax) {
		c := s[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	if len(s) > textMax {
		dst = append(dst, " ..."...)
	}
	return dst
}
