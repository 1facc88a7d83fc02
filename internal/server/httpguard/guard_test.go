// SPDX-License-Identifier: Apache-2.0

package httpguard

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server and returns its address. The server responds with the method, the path, and the length of the
// body. Requests for /wait receive their response when release is closed.
func serve(t *testing.T, o Options) (address string, release chan struct{}) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	release = make(chan struct{})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/wait" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		}
		_, _ = fmt.Fprintf(w, "%s %s %d %v", r.Method, r.URL.Path, len(body), err)
		if r.TLS != nil {
			_, _ = io.WriteString(w, " over TLS")
		}
	})}
	Attach(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(Listen(inner, o)) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return inner.Addr().String(), release
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestFraming checks that a request that a proxy could frame differently is rejected (HG1). The server must not treat
// the bytes after such a request as another request. Other requests must be served in order.
func TestFraming(t *testing.T) {
	address, _ := serve(t, Options{Max: 100, AddressMax: 100})
	const host = "Host: x\r\n"
	for _, c := range []struct {
		name, send string
		want       []string // bodies of the responses; "400" means a rejection
	}{
		{"plain", "GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\n" + host + "\r\n",
			[]string{"GET /a 0 <nil>", "GET /b 0 <nil>"}},
		{"length", "POST /a HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n" + host + "\r\n",
			[]string{"POST /a 3 <nil>", "GET /b 0 <nil>"}},
		{"chunks", "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" +
			"GET /b HTTP/1.1\r\n" + host + "\r\n", []string{"POST /a 5 <nil>", "GET /b 0 <nil>"}},
		{"blank line", "POST /a HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\na\r\nGET /b HTTP/1.1\r\n" + host +
			"\r\n", []string{"POST /a 1 <nil>", "GET /b 0 <nil>"}},
		{"both lengths", "POST /a HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"0\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"400"}},
		{"two lengths", "POST /a HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
			[]string{"400"}},
		{"folded", "GET /a HTTP/1.1\r\n" + host + "A: b\r\n c\r\n\r\n", []string{"400"}},
		{"bare LF", "GET /a HTTP/1.1\n" + host + "\r\n", []string{"400"}},
		{"space before the colon", "GET /a HTTP/1.1\r\n" + host + "Content-Length : 3\r\n\r\nabc", []string{"400"}},
		{"too large", "GET /a HTTP/1.1\r\n" + host + "A: " + strings.Repeat("x", headMax) + "\r\n\r\n",
			[]string{"400"}},
		{"second is bad", "GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\n\n",
			[]string{"GET /a 0 <nil>", "400"}},
	} {
		conn := dial(t, address)
		go func() { _, _ = io.WriteString(conn, c.send) }()
		in := bufio.NewReader(conn)
		for i, want := range c.want {
			r, err := http.ReadResponse(in, nil)
			if i > 0 && want == "400" && err != nil {
				break // net/http may detect the end of the input before it responds to the first request
			}
			if err != nil {
				t.Errorf("%s, answer %d: %v", c.name, i, err)
				break
			}
			body, _ := io.ReadAll(r.Body)
			got := string(body)
			if r.StatusCode == http.StatusBadRequest {
				got = "400"
			}
			if got != want {
				t.Errorf("%s, answer %d: %d %q, want %q", c.name, i, r.StatusCode, body, want)
			}
		}
		if c.want[len(c.want)-1] == "400" {
			if more, _ := io.ReadAll(in); len(more) > 0 {
				t.Errorf("%s: after the rejection: got %q", c.name, more)
			}
		}
		_ = conn.Close()
	}
}

// TestPieces checks that the framing does not depend on how the bytes arrive. Every byte must be passed on exactly
// once.
func TestPieces(t *testing.T) {
	const send = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
		"PUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcdGET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, from := range []io.Reader{strings.NewReader(send), iotest.OneByteReader(strings.NewReader(send)),
		iotest.HalfReader(strings.NewReader(send))} {
		var f framing
		var got bytes.Buffer
		p := make([]byte, 7)
		for {
			n, err := f.read(from, p)
			got.Write(p[:n])
			if err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				break
			}
		}
		if got.String() != send {
			t.Errorf("passed on %q", got.String())
		}
	}
}

// TestIdleConnections checks that a new connection is served even if many connections from its address are idle (HG2,
// HG3). These connections are silent or have sent only the start of a request. A connection with a request in flight
// must not be closed to make room.
func TestIdleConnections(t *testing.T) {
	const most = 8
	address, release := serve(t, Options{Max: 2 * most, AddressMax: most})
	waiting := dial(t, address)
	_, _ = io.WriteString(waiting, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	answer := bufio.NewReader(waiting)
	r, err := http.ReadResponse(answer, nil) // the response has started, so the request is in flight
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 * most {
		c := dial(t, address)
		if i%2 > 0 {
			_, _ = io.WriteString(c, "GET /a HTTP/1.1\r\nHo")
		}
	}
	probe := dial(t, address)
	_, _ = io.WriteString(probe, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if text, err := io.ReadAll(probe); err != nil || !strings.Contains(string(text), "GET /healthz 0") {
		t.Errorf("the probe: %q, %v", text, err)
	}
	close(release)
	if body, err := io.ReadAll(r.Body); err != nil || string(body) != "GET /wait 0 <nil>" {
		t.Errorf("the request in flight: %q, %v", body, err)
	}
}

// TestTLS checks that requests over TLS are served. A client without TLS must receive an error that names the cause.
func TestTLS(t *testing.T) {
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	address, _ := serve(t, Options{Max: 8, AddressMax: 8, TLS: &tls.Config{Certificates: other.TLS.Certificates}})
	client := other.Client()
	defer client.CloseIdleConnections()
	for _, c := range []struct{ url, want string }{
		{"https://" + address + "/a", "GET /a 0 <nil> over TLS"},
		{"http://" + address + "/a", "Client sent an HTTP request to an HTTPS server.\n"},
	} {
		r, err := client.Get(c.url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if string(body) != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.url, body, err, c.want)
		}
	}
}
