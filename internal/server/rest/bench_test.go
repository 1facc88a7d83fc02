// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// endless is a connection with an endless sequence of requests. Responses are discarded.
type endless struct {
	net.Conn
	request, left []byte
	times         int
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.left) == 0 {
		if e.times--; e.times < 0 {
			return 0, io.EOF
		}
		e.left = e.request
	}
	n := copy(b, e.left)
	e.left = e.left[n:]
	return n, nil
}

func (e *endless) Write(b []byte) (int, error)      { return len(b), nil }
func (e *endless) Close() error                     { return nil }
func (e *endless) SetDeadline(time.Time) error      { return nil }
func (e *endless) SetReadDeadline(time.Time) error  { return nil }
func (e *endless) SetWriteDeadline(time.Time) error { return nil }
func (e *endless) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (e *endless) RemoteAddr() net.Addr             { return e.LocalAddr() }

// signedText returns a request in its encoded form.
func signedText(t testing.TB, key []byte, method, path, body string, header map[string]string) []byte {
	r, err := http.NewRequest(method, "http://h"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sign(r, key, time.Now())
	for k, v := range header {
		r.Header.Set(k, v)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BenchmarkExchange measures the processor time of a request, excluding the socket, on a store in memory. It includes
// parsing, the signature, headers, and the item.
func BenchmarkExchange(b *testing.B) {
	keys := &Keys{Primary: keyOf(0), Secondary: keyOf(1), ReadOnly: keyOf(2)}
	s := New(newFake(), noScripts{}, Options{Account: &surface{keys: keys}})
	ask := func(request []byte, times int) {
		g, _ := s.connLimiter.admit(&endless{request: request, times: times})
		newConn(s, g).serve()
	}
	text := func(method, path, body string, header map[string]string) []byte {
		return signedText(b, keys.Primary, method, path, body, header)
	}
	item := `{"id":"1","pk":"a","x":"` + strings.Repeat("x", 1000) + `"}`
	ask(text(post, "/dbs", `{"id":"d"}`, nil), 1)
	ask(text(post, "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, nil), 1)
	ask(text(post, docs, item, pk), 1)
	for _, c := range []struct {
		name    string
		request []byte
	}{
		{"read", text(get, docs+"/1", "", pk)},
		{"upsert", text(post, docs, item, with("x-ms-documentdb-is-upsert", "true"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			ask(c.request, b.N)
		})
	}
	if n := s.Stats().Errors.Load(); n > 0 {
		b.Errorf("%d requests failed", n)
	}
}
