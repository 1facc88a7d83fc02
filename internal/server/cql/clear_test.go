// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// TestClearMeetsTLS checks a client without TLS at an address that requires TLS. The client must receive an error that
// names the cause. A client with TLS must fail immediately at an address without TLS.
func TestClearMeetsTLS(t *testing.T) {
	encrypted := start(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	for _, version := range []byte{3, 4, 5} {
		conn, err := net.Dial("tcp", encrypted.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		options := cqlwire.AppendHeader(nil, cqlwire.Header{Version: version, Stream: 7, Opcode: cqlwire.OpOptions})
		if _, err := conn.Write(options); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || len(answer) < cqlwire.HeaderSize || answer[0] != version|0x80 ||
			cqlwire.ParseHeader(answer).Stream != 7 || !strings.Contains(string(answer), "connect with TLS") {
			t.Errorf("version %d: %q, %v", version, answer, err)
		}
		_ = conn.Close()
	}
	clear := start(t, Options{})
	conn, err := net.Dial("tcp", clear.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil ||
		!strings.Contains(err.Error(), "does not look like a TLS handshake") {
		t.Error(err)
	}
}
