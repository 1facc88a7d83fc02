// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"
)

// This file implements protocol v4 independently of the server. A shared codec would hide its own errors.

const (
	opError        = 0
	opStartup      = 1
	opReady        = 2
	opAuthenticate = 3
	opQuery        = 7
	opResult       = 8
	opPrepare      = 9
	opExecute      = 10
	opBatch        = 13
	opAuthResponse = 15
	opAuthSuccess  = 16
)

var levels = strings.Fields("ANY ONE TWO THREE QUORUM ALL LOCAL_QUORUM EACH_QUORUM SERIAL LOCAL_SERIAL LOCAL_ONE")

func level(name string) uint16 {
	for i, l := range levels {
		if l == name {
			return uint16(i)
		}
	}
	return 6
}

// answer is a response in the form of the recordings' "expect".
type answer struct {
	Kind      string      `json:"kind"`
	Columns   [][2]string `json:"columns"`
	Rows      [][]*string `json:"rows"`
	MorePages *bool       `json:"more_pages"`
	Keyspace  string      `json:"keyspace"`
	Change    string      `json:"change"`
	Target    string      `json:"target"`
	Name      string      `json:"name"`
	Args      []string    `json:"args"`
	BindTypes [][2]string `json:"bind_types"`
	PKIndexes []int       `json:"pk_indexes"`
	Code      string      `json:"code"`
	Message   string      `json:"message"`
	Already   []string    `json:"already"`
	Function  any         `json:"function"`
	Warnings  []string    `json:"warnings"`

	id, pagingState []byte
}

// reader reads primitives from a body. The first missing byte sets err.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = fmt.Errorf("body too short: want %d bytes, have %d", n, len(r.b))
		}
		return make([]byte, max(0, min(n, 16)))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u16() int       { return int(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) i32() int       { return int(int32(binary.BigEndian.Uint32(r.take(4)))) }
func (r *reader) string() string { return string(r.take(r.u16())) }

func (r *reader) bytes() []byte {
	n := r.i32()
	if n < 0 {
		return nil
	}
	return append([]byte{}, r.take(n)...)
}

func (r *reader) strings() []string {
	out := []string{}
	for n := r.u16(); n > 0 && r.err == nil; n-- {
		out = append(out, r.string())
	}
	return out
}

var simpleTypes = map[int]string{
	1: "ascii", 2: "bigint", 3: "blob", 4: "boolean", 5: "counter", 6: "decimal", 7: "double", 8: "float",
	9: "int", 0xA: "text", 0xB: "timestamp", 0xC: "uuid", 0xD: "text", 0xE: "varint", 0xF: "timeuuid",
	0x10: "inet", 0x11: "date", 0x12: "time", 0x13: "smallint", 0x14: "tinyint", 0x15: "duration",
}

var plainIdent = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func ident(s string) string {
	if plainIdent.MatchString(s) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

func (r *reader) typ() string {
	switch k := r.u16(); k {
	case 0:
		return "'" + r.string() + "'"
	case 0x20:
		return "list<" + r.typ() + ">"
	case 0x22:
		return "set<" + r.typ() + ">"
	case 0x21:
		key := r.typ()
		return "map<" + key + ", " + r.typ() + ">"
	case 0x30:
		s := "udt<" + ident(r.string())
		s += "." + ident(r.string())
		for n := r.u16(); n > 0 && r.err == nil; n-- {
			s += ", " + ident(r.string())
			s += " " + r.typ()
		}
		return s + ">"
	case 0x31:
		var parts []string
		for n := r.u16(); n > 0 && r.err == nil; n-- {
			parts = append(parts, r.typ())
		}
		return "tuple<" + strings.Join(parts, ", ") + ">"
	default:
		if s, ok := simpleTypes[k]; ok {
			return s
		}
		return fmt.Sprintf("unknown<0x%04x>", k)
	}
}

// metadata reads result or bind metadata. columns is nil if the server omitted the columns.
func (r *reader) metadata(a *answer, prepared bool) (columns [][2]string, count int) {
	flags := r.i32()
	count = r.i32()
	if prepared {
		a.PKIndexes = []int{}
		for n := r.i32(); n > 0 && r.err == nil; n-- {
			a.PKIndexes = append(a.PKIndexes, r.u16())
		}
	}
	if flags&2 != 0 {
		a.pagingState = r.bytes()
	}
	if flags&4 != 0 {
		if count > 0 {
			return nil, count
		}
		return [][2]string{}, 0
	}
	if flags&1 != 0 {
		r.string()
		r.string()
	}
	columns = [][2]string{}
	for i := 0; i < count && r.err == nil; i++ {
		if flags&1 == 0 {
			r.string()
			r.string()
		}
		name := r.string()
		columns = append(columns, [2]string{name, r.typ()})
	}
	return columns, count
}

func decode(opcode byte, flags byte, body []byte) (answer, error) {
	r := &reader{b: body}
	var a answer
	if flags&2 != 0 {
		r.take(16)
	}
	if flags&8 != 0 {
		a.Warnings = r.strings()
	}
	if flags&4 != 0 {
		for n := r.u16(); n > 0 && r.err == nil; n-- {
			r.string()
			r.bytes()
		}
	}
	switch opcode {
	case opError:
		a.Kind = "error"
		a.Code = fmt.Sprintf("0x%04x", uint32(r.i32()))
		a.Message = r.string()
		if a.Code == "0x2400" {
			a.Already = []string{r.string(), r.string()}
		}
	case opReady, opAuthSuccess:
		a.Kind = "ready"
	case opAuthenticate:
		a.Kind = "authenticate"
	case opResult:
		decodeResult(r, &a)
	default:
		a.Kind = fmt.Sprintf("opcode %d", opcode)
	}
	return a, r.err
}

func decodeResult(r *reader, a *answer) {
	switch k := r.i32(); k {
	case 1:
		a.Kind = "void"
	case 2:
		a.Kind = "rows"
		cols, n := r.metadata(a, false)
		a.Columns = cols
		more := a.pagingState != nil
		a.MorePages = &more
		a.Rows = [][]*string{}
		for rows := r.i32(); rows > 0 && r.err == nil; rows-- {
			row := make([]*string, n)
			for i := range row {
				if b := r.bytes(); b != nil {
					s := hex.EncodeToString(b)
					row[i] = &s
				}
			}
			a.Rows = append(a.Rows, row)
		}
	case 3:
		a.Kind, a.Keyspace = "set_keyspace", r.string()
	case 4:
		a.Kind = "prepared"
		a.id = append([]byte{}, r.take(r.u16())...)
		a.BindTypes, _ = r.metadata(a, true)
		a.Columns, _ = r.metadata(a, false)
	case 5:
		a.Kind, a.Change, a.Target, a.Keyspace = "schema_change", r.string(), r.string(), r.string()
		if a.Target != "KEYSPACE" {
			a.Name = r.string()
		}
		if a.Target == "FUNCTION" || a.Target == "AGGREGATE" {
			a.Args = r.strings()
		}
	default:
		a.Kind = fmt.Sprintf("result %d", k)
	}
}

// conn is a connection that sends one request at a time.
type conn struct {
	c        net.Conn
	keyspace string
	// refused is the response to STARTUP from a node that requires a login.
	refused *answer
}

func dial(addr string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c := &conn{c: nc}
	got, err := c.call(opStartup, appendString(appendString([]byte{0, 1}, "CQL_VERSION"), "3.0.0"))
	if got.Kind == "authenticate" {
		c.refused = &got
	} else if err == nil && got.Kind != "ready" {
		err = fmt.Errorf("startup: %s %s", got.Kind, got.Message)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// authenticate sends credentials and returns the response.
func (c *conn) authenticate(user, password string) (answer, error) {
	return c.call(opAuthResponse, appendLong(nil, "\x00"+user+"\x00"+password))
}

func (c *conn) login(user, password string) error {
	got, err := c.authenticate(user, password)
	if err == nil && got.Kind != "ready" {
		err = fmt.Errorf("login as %s: %s %s", user, got.Kind, got.Message)
	}
	return err
}

func (c *conn) call(opcode byte, body []byte) (answer, error) {
	frame := []byte{4, 0, 0, 1, opcode}
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(body))), body...)
	if err := c.c.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return answer{}, err
	}
	if _, err := c.c.Write(frame); err != nil {
		return answer{}, err
	}
	var h [9]byte
	if _, err := io.ReadFull(c.c, h[:]); err != nil {
		return answer{}, err
	}
	b := make([]byte, binary.BigEndian.Uint32(h[5:]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		return answer{}, err
	}
	return decode(h[4], h[1], b)
}

func (c *conn) query(cql string) (answer, error) {
	a, err := c.call(opQuery, append(appendLong(nil, cql), 0, 6, 0))
	if a.Kind == "set_keyspace" {
		c.keyspace = a.Keyspace
	}
	return a, err
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendLong(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// appendValue appends a recorded value, which is hex text, null, or "unset".
func appendValue(b []byte, v *string) ([]byte, error) {
	if v == nil {
		return append(b, 0xff, 0xff, 0xff, 0xff), nil
	}
	if *v == "unset" {
		return append(b, 0xff, 0xff, 0xff, 0xfe), nil
	}
	raw, err := hex.DecodeString(*v)
	if err != nil {
		return nil, errors.New("recording: bad hex value " + *v)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(raw))), raw...), nil
}
