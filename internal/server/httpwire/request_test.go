// SPDX-License-Identifier: Apache-2.0

package httpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// parse parses the head of a request that arrives as a whole.
func parse(text string) (*Request, error) {
	end, err := End([]byte(text), 0)
	if err != nil {
		return nil, err
	}
	if end != len(text) {
		return nil, errors.New("the end is at " + strconv.Itoa(end))
	}
	r := new(Request)
	return r, r.Parse([]byte(text))
}

// TestRequests checks the properties of the body and of the connection that the head of a request specifies.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		text             string
		path, host       string
		length           int64
		close, continue_ bool
	}{
		{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "/", "h", 0, false, false},
		{"GET /a%20b?c=/d HTTP/1.1\r\nHost:h:1\r\n\r\n", "/a%20b", "h:1", 0, false, false},
		{"GET http://h/a?b HTTP/1.1\r\nHost: h\r\n\r\n", "/a", "h", 0, false, false},
		{"GET HTTPS://h HTTP/1.1\r\nHost: h\r\n\r\n", "/", "h", 0, false, false},
		{"GET http://h?a HTTP/1.1\r\nHost: h\r\n\r\n", "/", "h", 0, false, false},
		{"GET / HTTP/1.1\r\nHost: \r\n\r\n", "/", "", 0, false, false},
		{"GET / HTTP/1.0\r\n\r\n", "/", "", 0, true, false},
		{"GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", "/", "", 0, false, false},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", "/", "", 0, true, false},
		{"GET / HTTP/1.1\r\nHost: h\r\nconnection:CLOSE\r\n\r\n", "/", "h", 0, true, false},
		{"PUT / HTTP/1.1\r\nHost: h\r\ncontent-length: 012 \r\n\r\n", "/", "h", 12, false, false},
		{"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n", "/", "h", 0, false, false},
		{"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n", "/", "h", 1, false, true},
		{"PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", "/", "", 1, true, false},
		{"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n", "/", "h", Chunks, false, false},
		{"GET / HTTP/1.1\r\nHost: h\r\nX: a\tb\xc3\xa9\r\n\r\n", "/", "h", 0, false, false},
	} {
		r, err := parse(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if r.Path() != c.path || r.Host != c.host || r.Length != c.length || r.Close != c.close ||
			r.Continue != c.continue_ {
			t.Errorf("%q: %+v, path %s", c.text, r, r.Path())
		}
	}
}

// TestMalformed checks that ambiguous line ends, spaces, lengths, codings, targets, and names are rejected.
func TestMalformed(t *testing.T) {
	host := " HTTP/1.1\r\nHost: h\r\n"
	for _, c := range []struct {
		text string
		want error
	}{
		{"GET / HTTP/1.1\nHost: h\r\n\r\n", errLineEnd},
		{"GET / HTTP/1.1\r\nHost: h\n\r\n", errLineEnd},
		{"GET /" + host + "\n", errLineEnd},
		{"\nGET /" + host + "\r\n", errLineEnd},
		{"GET /" + host + "X: a\rb\r\n\r\n", errValue},
		{"GET /" + host + "X: a\x00b\r\n\r\n", errValue},
		{"GET /" + host + "X: a\r\n b\r\n\r\n", errName},
		{"GET /" + host + " X: a\r\n\r\n", errName},
		{"GET /" + host + "X : a\r\n\r\n", errName},
		{"GET /" + host + "X\r\n\r\n", errName},
		{"GET /" + host + ": a\r\n\r\n", errName},
		{"GET /" + host + "X\u00e9: a\r\n\r\n", errName},
		{"GET /" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", errFraming},
		{"GET /" + host + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", errFraming},
		{"GET /" + host + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", errLength},
		{"GET /" + host + "Content-Length: 1, 1\r\n\r\n", errLength},
		{"GET /" + host + "Content-Length: +1\r\n\r\n", errLength},
		{"GET /" + host + "Content-Length: -1\r\n\r\n", errLength},
		{"GET /" + host + "Content-Length: 0x1\r\n\r\n", errLength},
		{"GET /" + host + "Content-Length:\r\n\r\n", errLength},
		{"GET /" + host + "Content-Length: 1000000000000000000\r\n\r\n", errLength},
		{"GET /" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding},
		{"GET /" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", errCoding},
		{"GET /" + host + "Transfer-Encoding: identity\r\n\r\n", errCoding},
		{"GET /" + host + "Transfer-Encoding: chun\u212aed\r\n\r\n", errCoding},
		{"GET /" + host + "Transfer-Encoding:\r\n\r\n", errCoding},
		{"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding},
		{"GET /" + host + "Host: h\r\n\r\n", errHost},
		{"GET / HTTP/1.1\r\n\r\n", errHost},
		{"GET /" + host + "Expect: 200-ok\r\n\r\n", errExpectation},
		{"GET / HTTP/2.0\r\n\r\n", errVersion},
		{"PRI * HTTP/2.0\r\n\r\n", errVersion},
		{"GET / HTTP/1.10\r\n\r\n", errVersion},
		{"GET / http/1.1\r\n\r\n", errHead},
		{"GET /\r\n\r\n", errHead},
		{"GET  /" + host + "\r\n", errHead},
		{"GET / " + host + "\r\n", errHead},
		{" GET /" + host + "\r\n", errHead},
		{"G(T /" + host + "\r\n", errHead},
		{"\r\n", errHead},
		{"GET a" + host + "\r\n", errTarget},
		{"OPTIONS *" + host + "\r\n", errTarget},
		{"GET ftp://h/" + host + "\r\n", errTarget},
		{"GET http://" + host + "\r\n", errTarget},
		{"GET http:///x" + host + "\r\n", errTarget},
		{"GET /a\tb" + host + "\r\n", errTarget},
		{"GET /a\x7f" + host + "\r\n", errTarget},
		{"GET /" + host + strings.Repeat("X: y\r\n", FieldsMax) + "\r\n", errFields},
	} {
		if _, err := parse(c.text); err != c.want {
			t.Errorf("%q: %v, want %v", c.text, err, c.want)
		}
	}
}

// TestEnd checks that the end of a head is found regardless of how its bytes arrive.
func TestEnd(t *testing.T) {
	const head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	for looked := range len(head) {
		if end, err := End([]byte(head[:looked]), 0); end != 0 || err != nil {
			t.Errorf("%q: %d, %v", head[:looked], end, err)
		}
		if end, err := End([]byte(head+"more"), looked); end != len(head) || err != nil {
			t.Errorf("after %d: %d, %v", looked, end, err)
		}
	}
}

// FuzzRequest checks that the standard library accepts every request that Parse accepts. The fields must be the same.
// Both must find the same body and the same start of the next request.
func FuzzRequest(f *testing.F) {
	f.Add("GET /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n")
	f.Add("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\nGET /")
	f.Add("POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nab")
	f.Add("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\nA \r\n0123456789\r\n00\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		data := []byte(text)
		end, err := End(data, 0)
		if end == 0 || err != nil {
			return
		}
		r := new(Request)
		if r.Parse(data[:end]) != nil {
			return
		}
		in := bufio.NewReaderSize(strings.NewReader(text), len(text)+16)
		want, err := http.ReadRequest(in)
		if err != nil {
			// The standard library checks URLs with hosts more strictly than Parse, because Parse needs only the path.
			if strings.Contains(err.Error(), "parse \"") || strings.Contains(err.Error(), "invalid URI") {
				return
			}
			t.Fatalf("%q: the standard library returns %v", text, err)
		}
		for _, field := range r.Fields {
			if values := want.Header.Values(field.Name); len(values) > 0 && values[0] != r.Fields.Get(field.Name) {
				t.Errorf("%q: %s is %q, not %q", text, field.Name, r.Fields.Get(field.Name), values[0])
			}
		}
		if r.Method != want.Method || r.Target != want.RequestURI || r.Minor != want.ProtoMinor ||
			r.Length != want.ContentLength {
			t.Fatalf("%q: %+v, not %+v", text, r, want)
		}
		body, err := io.ReadAll(want.Body)
		got, after, ok := bodyOf(r, data[end:])
		if (err == nil) != ok && ok {
			t.Fatalf("%q: the body is %q, but the standard library returns %v", text, got, err)
		}
		if ok {
			rest, _ := io.ReadAll(in)
			if !bytes.Equal(got, body) || after != len(text)-end-len(rest) {
				t.Fatalf("%q: the body %q ends at %d, not %q and %d", text, got, after, body, len(text)-end-len(rest))
			}
		}
	})
}

// bodyOf returns the body of a request and the end of the body. ok reports whether the body is complete.
func bodyOf(r *Request, data []byte) (body []byte, end int, ok bool) {
	if r.Length >= 0 {
		if int64(len(data)) < r.Length {
			return nil, 0, false
		}
		return data[:r.Length], int(r.Length), true
	}
	var b Body
	out, n, done, err := b.Take(nil, data, 1<<20)
	return out, n, done && err == nil
}

// TestAnswers checks the format of a response. A header value must not be able to start a line.
func TestAnswers(t *testing.T) {
	b := AppendStatus(nil, 449)
	b = AppendField(b, "x", "a\r\nSet-Cookie: b\x00\x7fé\t")
	b = AppendLength(b, 12)
	const want = "HTTP/1.1 449 status code 449\r\nx: a  Set-Cookie: b  é\t\r\nContent-Length: 12\r\n\r\n"
	if string(b) != want {
		t.Errorf("%q, want %q", b, want)
	}
	if b := AppendStatus(nil, 200); string(b) != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("%q", b)
	}
}
