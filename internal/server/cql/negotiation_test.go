// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// TestNegotiation sends bytes on a new connection in each case, and checks the response. The expected texts are the
// texts that Cassandra sends and that drivers expect.
func TestNegotiation(t *testing.T) {
	b := start(t, Options{})
	startup := func(pairs ...string) string {
		s := cqlwire.Startup{}
		for i := 0; i < len(pairs); i += 2 {
			s[pairs[i]] = pairs[i+1]
		}
		return hex.EncodeToString(cqlwire.AppendStartup(nil, s))
	}
	frame := func(version, flags byte, stream int16, op byte, body string) string {
		return fmt.Sprintf("%02x%02x%04x%02x%08x%s", version, flags, uint16(stream), op, len(body)/2, body)
	}
	badVersion := func(v int) string {
		return fmt.Sprintf("Invalid or unsupported protocol version (%d); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)", v)
	}
	ok := startup("CQL_VERSION", "3.0.0")
	for _, tc := range []struct {
		name, send string
		op         cqlwire.Opcode
		text       string // text of a protocol error
		stream     int16
		version    uint8
		end        bool
	}{
		{"version 66", frame(66, 0, 7, 5, ""), cqlwire.OpError, badVersion(66), 0, 5, true},
		{"version 6 beta", frame(6, 0x10, 7, 5, ""), cqlwire.OpError, badVersion(6), 0, 5, true},
		{"version 2, 8 bytes", "0200070500000000", cqlwire.OpError, badVersion(2), 0, 5, true},
		{"version 1, one byte is enough", "01", cqlwire.OpError, badVersion(1), 0, 5, true},
		{"HTTP", hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n")), cqlwire.OpError, badVersion('G'), 0, 5, true},
		{"options v3", frame(3, 0, 9, 5, ""), cqlwire.OpSupported, "", 9, 3, false},
		{"options v5", frame(5, 0, 9, 5, ""), cqlwire.OpSupported, "", 9, 5, false},
		{"startup v4", frame(4, 0, 9, 1, ok), cqlwire.OpReady, "", 9, 4, false},
		{"startup v5", frame(5, 0, 9, 1, ok), cqlwire.OpReady, "", 9, 5, false},
		{"query first", frame(4, 0, 9, 7, ""), cqlwire.OpError,
			"Unexpected message QUERY, expecting STARTUP or OPTIONS", 0, 4, false},
		{"no version", frame(4, 0, 9, 1, startup("A", "b")), cqlwire.OpError,
			"Missing value CQL_VERSION in STARTUP message", 9, 4, false},
		{"old version", frame(4, 0, 9, 1, startup("CQL_VERSION", "2.0.0")), cqlwire.OpError,
			"CQL version 2.0.0 is not supported by the binary protocol (supported version are >= 3.0.0)", 9, 4, false},
		{"compression", frame(4, 0, 9, 1, startup("CQL_VERSION", "3.0.0", "COMPRESSION", "foo")), cqlwire.OpError,
			"Unknown compression algorithm: foo", 9, 4, false},
		{"snappy v5", frame(5, 0, 9, 1, startup("CQL_VERSION", "3.0.0", "COMPRESSION", "snappy")), cqlwire.OpError,
			"Snappy compression is not supported in protocol V5", 9, 5, false},
		{"unknown opcode", frame(4, 0, 9, 0x55, ""), cqlwire.OpError, "Unknown opcode 85", 0, 4, false},
		{"a response", frame(0x84, 0, 9, 8, ""), cqlwire.OpError, "Wrong protocol direction", 0, 4, false},
		{"a response's opcode", frame(4, 0, 9, 8, ""), cqlwire.OpError, "Wrong protocol direction", 0, 4, false},
		{"negative length", "0400000905ffffffff", cqlwire.OpError, "Invalid frame body length: -1", 9, 5, true},
		{"broken body", frame(4, 0, 9, 1, "0009"), cqlwire.OpError, "ends too early", 9, 4, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, b.addr, cqlwire.V4)
			raw, err := hex.DecodeString(tc.send)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.nc.Write(raw); err != nil {
				t.Fatal(err)
			}
			var a answer
			if tc.op == cqlwire.OpError {
				a = c.mustFail(cqlwire.CodeProtocol, tc.text)
			} else {
				a = c.must(tc.op)
			}
			if a.Stream != tc.stream || !a.Response || a.Version != tc.version && tc.name != "negative length" {
				t.Errorf("header %+v", a.Header)
			}
			if tc.end {
				c.mustEnd()
			} else if tc.op != cqlwire.OpReady {
				// The connection continues, so a valid handshake succeeds.
				c.hello(cqlwire.NoCompression)
				c.query(1, "x", []byte("y"))
				c.flush()
				c.rows()
			}
		})
	}
}

// TestSupported checks that SUPPORTED contains the options that drivers use.
func TestSupported(t *testing.T) {
	b := start(t, Options{Supported: []cqlwire.Option{{Key: "EXTRA", Values: []string{"1"}}}})
	c := dial(t, b.addr, cqlwire.V4)
	c.put(3, cqlwire.OpOptions, nil)
	c.flush()
	m, err := cqlwire.DecodeSupported(c.must(cqlwire.OpSupported).body)
	if got := fmt.Sprint(m); err != nil ||
		got != "map[COMPRESSION:[snappy lz4] CQL_VERSION:[3.4.5] EXTRA:[1] PROTOCOL_VERSIONS:[3/v3 4/v4 5/v5]]" {
		t.Fatal(got, err)
	}
}

// TestEstablished checks that a request that is rejected after the handshake leaves the connection usable.
func TestEstablished(t *testing.T) {
	b := start(t, Options{})
	for _, version := range []uint8{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
		c.put(5, cqlwire.OpStartup, cqlwire.AppendStartup(nil, cqlwire.Startup{"CQL_VERSION": "3.0.0"}))
		c.put(6, 0x55, nil)
		c.put(7, cqlwire.OpRegister, cqlwire.AppendRegister(nil, []string{"NO_SUCH"}))
		c.put(8, cqlwire.OpQuery, []byte{1})
		c.put(9, cqlwire.OpOptions, nil)
		c.put(10, 0x7e, nil)
		c.version ^= 7 // exchange 3 and 4, and replace 5 with 2
		if c.version != 2 {
			c.query(11, "x")
		}
		c.version = version
		c.query(12, "x")
		c.flush()
		c.mustFail(cqlwire.CodeProtocol, "Unexpected message STARTUP, the connection is already initialized")
		c.mustFail(cqlwire.CodeProtocol, "Unknown opcode 85")
		c.mustFail(cqlwire.CodeProtocol, "Invalid value 'NO_SUCH' for Type")
		c.mustFail(cqlwire.CodeProtocol, "ends too early")
		c.must(cqlwire.OpSupported)
		c.mustFail(cqlwire.CodeProtocol, "Unknown opcode 126")
		if version != cqlwire.V5 {
			c.mustFail(cqlwire.CodeProtocol,
				fmt.Sprintf("Invalid message version. Got %d/v%d but previous messages on this connection had "+
					"version %d/v%d", version^7, version^7, version, version))
		}
		if a := c.must(cqlwire.OpResult); a.Stream != 12 {
			t.Error(a.Stream)
		}
	}
}

type users map[string]string

func (u users) Authenticate(_ context.Context, _ netip.Addr, user, password string) (access.Login, error) {
	if p, ok := u[user]; !ok || p != password {
		return access.Login{}, &dberr.BadCredentials{
			Message: fmt.Sprintf("Provided username %s and/or password are incorrect", user)}
	}
	return access.Login{Role: user, Version: access.RoleVersion{Credentials: 7}}, nil
}

// TestEndLogins checks that the connections of a role can be closed without an effect on other connections.
func TestEndLogins(t *testing.T) {
	b := start(t, Options{Authenticator: users{"a": "x", "b": "x"}})
	enter := func(user string) *client {
		c := dial(t, b.addr, cqlwire.V4)
		c.startup(cqlwire.NoCompression)
		c.must(cqlwire.OpAuthenticate)
		c.put(1, cqlwire.OpAuthResponse, cqlwire.AppendAuthResponse(nil, cqlwire.AppendPlain(nil, user, "x")))
		c.flush()
		c.must(cqlwire.OpAuthSuccess)
		return c
	}
	gone, stays := enter("a"), enter("b")
	ended := func(l *access.Login) bool { return l.Role == "a" && l.Version.Credentials == 7 }
	if count := b.srv.EndLogins(ended); count != 1 {
		t.Errorf("%d connections were closed, want 1", count)
	}
	gone.mustEnd()
	stays.query(2, "x")
	stays.flush()
	stays.rows()
}

// TestLogin checks that clients must log in if the server has an authenticator. Other requests must fail before the
// login.
func TestLogin(t *testing.T) {
	b := start(t, Options{Authenticator: users{"cassandra": "secret"}})
	for _, version := range []uint8{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		c := dial(t, b.addr, version)
		c.startup(cqlwire.NoCompression)
		class, err := cqlwire.DecodeAuthenticate(c.must(cqlwire.OpAuthenticate).body)
		if class != "org.apache.cassandra.auth.PasswordAuthenticator" || err != nil {
			t.Fatal(class, err)
		}
		c.query(1, "x")
		c.put(2, cqlwire.OpAuthResponse,
			cqlwire.AppendAuthResponse(nil, cqlwire.AppendPlain(nil, "cassandra", "wrong")))
		c.put(3, cqlwire.OpAuthResponse, cqlwire.AppendAuthResponse(nil, []byte("junk")))
		c.put(4, cqlwire.OpAuthResponse,
			cqlwire.AppendAuthResponse(nil, cqlwire.AppendPlain(nil, "cassandra", "secret")))
		c.query(5, "x")
		c.flush()
		c.mustFail(cqlwire.CodeProtocol, "Unexpected message QUERY, expecting SASL_RESPONSE")
		c.mustFail(cqlwire.CodeBadCredentials, "Provided username cassandra and/or password are incorrect")
		c.mustFail(cqlwire.CodeBadCredentials, "")
		c.must(cqlwire.OpAuthSuccess)
		c.rows()
	}
	for _, i := range b.srv.Clients() {
		if i.User != "cassandra" || i.DriverName != "test" || !i.Ready || i.Version < 3 || i.Requests == 0 {
			t.Errorf("%+v", i)
		}
	}
}

// TestSizes checks that requests and responses of all sizes pass in every version and compression. The bytes may
// arrive in pieces.
func TestSizes(t *testing.T) {
	b := start(t, Options{})
	for _, tc := range []struct {
		version uint8
		c       cqlwire.Compression
	}{
		{3, cqlwire.NoCompression},
		{3, cqlwire.LZ4},
		{4, cqlwire.NoCompression},
		{4, cqlwire.LZ4},
		{4, cqlwire.Snappy},
		{5, cqlwire.NoCompression},
		{5, cqlwire.LZ4},
	} {
		t.Run(fmt.Sprintf("v%d compression %d", tc.version, tc.c), func(t *testing.T) {
			c := dial(t, b.addr, tc.version).hello(tc.c)
			sizes := []int{0, 1, 100, 3000, 65_500, 65_536, 131_000, 131_071, 131_072, 300_000, 2_000_000, 5}
			var sent [][]byte
			for i, n := range sizes {
				v := bytes.Repeat([]byte("abcdefgh"), n/8+1)[:n]
				for j := 0; j < n; j += 7 {
					v[j] = byte(j * j >> 3)
				}
				sent = append(sent, v)
				c.query(int16(i), "x", v)
			}
			c.w.Finish()
			go func(data []byte) {
				// Odd sizes also split headers.
				for step := 1; len(data) > 0; step = step*3%8191 + 1 {
					n := min(step, len(data))
					if _, err := c.nc.Write(data[:n]); err != nil {
						return
					}
					data = data[n:]
				}
			}(c.w.Buf)
			for i := range sizes {
				a := c.must(cqlwire.OpResult)
				got, _, ok := cqlwire.NextCell(c.result(a).Cells)
				if !ok || int(a.Stream) != i || !bytes.Equal(got, sent[i]) {
					t.Fatalf("value %d of %d bytes was decoded as %d", i, sizes[i], len(got))
				}
			}
		})
	}
	if n := b.srv.Stats().InFlightBytes.Load(); n != 0 {
		// The server may still be closing the previous connection.
		b.srv.Close()
		if n = b.srv.Stats().InFlightBytes.Load(); n != 0 {
			t.Errorf("%d bytes are still counted as in flight", n)
		}
	}
}

// TestCorruptSegment checks that a corrupt segment ends the connection without a response.
func TestCorruptSegment(t *testing.T) {
	b := start(t, Options{})
	for _, at := range []int{0, 10} {
		c := dial(t, b.addr, cqlwire.V5).hello(cqlwire.NoCompression)
		c.query(1, "x")
		c.w.Finish()
		c.w.Buf[at] ^= 1
		c.flush()
		c.mustEnd()
	}
}

// TestResults checks that the client receives every kind of result with every prefix.
func TestResults(t *testing.T) {
	b := start(t, Options{})
	for _, version := range []uint8{cqlwire.V3, cqlwire.V4, cqlwire.V5} {
		c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
		c.query(1, "use ks2")
		c.query(2, "fail tab")
		c.put(3, cqlwire.OpPrepare, (&cqlwire.Prepare{Text: []byte("p")}).Append(nil, version))
		batch := cqlwire.Batch{Statements: []cqlwire.BatchStatement{{Text: []byte("one")},
			{ID: append([]byte{42}, make([]byte, 15)...)}}}
		c.put(4, cqlwire.OpBatch, batch.Append(nil, version))
		c.put(5, cqlwire.OpExecute, (&cqlwire.Execute{ID: []byte{1, 2, 3}}).Append(nil, version))
		c.put(6, cqlwire.OpExecute, (&cqlwire.Execute{ID: make([]byte, 16)}).Append(nil, version))
		c.flush()
		if r := c.rows(); r.Keyspace != "ks2" {
			t.Error(r)
		}
		c.mustFail(cqlwire.CodeAlreadyExists, "it exists")
		if r := c.rows(); len(r.ID) != 16 || len(r.Bind) != 2 || len(r.Columns) != 2 || version == 5 &&
			string(r.ResultMetadataID) != string(blobs[2].ID[:]) {
			t.Errorf("%+v", r)
		}
		if r := c.rows(); string(r.Cells) != "\x00\x00\x00\x03one\x00\x00\x00\x01\x2a" {
			t.Errorf("%q", r.Cells)
		}
		c.mustFail(cqlwire.CodeUnprepared, "010203")
		c.mustFail(cqlwire.CodeUnprepared, "Prepared query with ID 00000000000000000000000000000000 not found")

		flags := cqlwire.FlagTracing
		body := (&cqlwire.Query{Text: []byte("warn careful")}).Append(nil, version)
		if version >= cqlwire.V4 {
			flags |= cqlwire.FlagPayload
			entry := cqlwire.PayloadEntry{Key: []byte("k"), Value: []byte("v")}
			body = append(cqlwire.AppendPrefix(nil, version, &cqlwire.Prefix{Payload: []cqlwire.PayloadEntry{entry}}),
				body...)
		}
		c.putFlags(7, cqlwire.OpQuery, flags, body)
		c.flush()
		a := c.must(cqlwire.OpResult)
		if !a.prefix.HasTrace || a.prefix.TraceID[0] != 7 {
			t.Error(a.prefix)
		}
		if version >= cqlwire.V4 && (strings.Join(a.prefix.Warnings, "") != "careful" ||
			string(a.prefix.Payload[0].Value) != "re:v") {
			t.Error(a.prefix)
		}
	}
}

// TestMetadata checks that the response omits the column metadata only if the client already has the metadata.
func TestMetadata(t *testing.T) {
	b := start(t, Options{})
	id := append([]byte{1}, make([]byte, 15)...)
	known := blobs[1].ID[:]
	execute := func(c *client, skip bool, metadataID []byte) *cqlwire.Result {
		e := cqlwire.Execute{ID: id, ResultMetadataID: metadataID}
		e.Values = [][]byte{{9}}
		e.SkipMetadata = skip
		c.put(1, cqlwire.OpExecute, e.Append(nil, c.version))
		c.flush()
		return c.rows()
	}
	c4 := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	c5 := dial(t, b.addr, cqlwire.V5).hello(cqlwire.NoCompression)
	for _, tc := range []struct {
		name    string
		r       *cqlwire.Result
		columns int
		changed string
	}{
		{"v4", execute(c4, false, nil), 1, ""},
		{"v4 skip", execute(c4, true, nil), 0, ""},
		{"v5", execute(c5, false, known), 1, ""},
		{"v5 skip", execute(c5, true, known), 0, ""},
		{"v5 skip, changed", execute(c5, true, []byte("old")), 1, string(known)},
	} {
		if len(tc.r.Columns) != tc.columns || string(tc.r.ChangedID) != tc.changed || tc.r.ColumnCount != 1 {
			t.Errorf("%s: %+v", tc.name, tc.r)
		}
	}
	q := cqlwire.Query{Text: []byte("cas")}
	q.Values, q.SkipMetadata = [][]byte{{1}}, true
	c4.put(1, cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	c4.flush()
	if r := c4.rows(); len(r.Columns) != 1 {
		t.Errorf("conditional: %+v", r)
	}
}
