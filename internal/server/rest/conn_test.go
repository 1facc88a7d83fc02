// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// line is a client connection that sends arbitrary bytes.
type line struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// dial connects to the server of a surface.
func (s *surface) dial() *line {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	// This deadline passes only if a response is missing.
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &line{c, s.t, bufio.NewReader(c)}
}

// accepted returns the number of connections that the server has accepted.
func (s *surface) accepted() int {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return int(s.server.number)
}

func (l *line) send(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l, text); err != nil {
		l.t.Fatal(err)
	}
}

// answer reads the response to a request with the given method.
func (l *line) answer(method string) (r *http.Response, body string) {
	l.t.Helper()
	r, err := http.ReadResponse(l.in, &http.Request{Method: method})
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return r, string(b)
}

// ended checks that the server closes the connection without further output.
func (l *line) ended(about string) {
	l.t.Helper()
	if b, err := io.ReadAll(l.in); len(b) > 0 || err != nil {
		l.t.Errorf("%s: %q follows, %v", about, b, err)
	}
}

// text returns a signed request with additional headers at the beginning. The body has a Content-Length header unless
// more contains another framing.
func (s *surface) text(method, path, version, body, more string) string {
	r := httptest.NewRequest(method, path, nil)
	sign(r, s.keys.Primary, time.Now())
	head := method + " " + path + " " + version + "\r\nHost: h\r\nAuthorization: " + r.Header.Get("Authorization") +
		"\r\nX-MS-DATE: " + r.Header.Get("x-ms-date") + "\r\nx-ms-documentdb-partitionkey: [\"a\"]\r\n" + more
	if body != "" && !strings.Contains(more, "Content-Length") && !strings.Contains(more, "Transfer-Encoding") {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return head + "\r\n" + body
}

const (
	http11, http10 = "HTTP/1.1", "HTTP/1.0"
	chunked        = "Transfer-Encoding: chunked\r\n"
)

// itemOf returns the JSON of an item of the given size.
func itemOf(id string, size int) string {
	return `{"id":"` + id + `","pk":"a","x":"` + strings.Repeat("x", size) + `"}`
}

// TestPipelining checks that requests are answered in order, regardless of how their bytes are fragmented. Requests
// may arrive together or byte by byte. They may have bodies, and may be smaller or larger than the buffers.
func TestPipelining(t *testing.T) {
	for _, step := range []int{1 << 20, 1000, 1} {
		pipeline(t, step)
	}
}

// pipeline sends requests in steps of the given number of bytes.
func pipeline(t *testing.T, step int) {
	s := newSurface(t, Options{})
	large := itemOf("large", 260_000)
	all := s.text(post, docs, http11, itemOf("1", 10), "") +
		"\r\n" + // some clients send this after a body
		s.text(get, docs+"/1", http11, "", "") + s.text(get, docs+"/none", http11, "", "") +
		s.text(post, docs, http11, large, "") + s.text(get, docs+"/large", http11, "", "") +
		s.text(post, docs, http11, "5\r\n{\"id\"\r\n11;x\r\n:\"2\",\"pk\":\"a\"   }\r\n0\r\nT: x\r\n\r\n",
			"Transfer-Encoding: chunked\r\n") + s.text(get, docs+"/2", http11, "", "")
	l := s.dial()
	go func() {
		for rest := all; rest != ""; {
			n := min(step, len(rest))
			if step == 1 && len(rest) > 250_000 && strings.HasPrefix(rest, "xxx") {
				n = 200_000 // size of the large item
			}
			if _, err := io.WriteString(l, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	for i, want := range []struct {
		method string
		status int
		text   string
	}{{post, 201, `"id":"1"`}, {get, 200, `"id":"1"`}, {get, 404, "NotFound"}, {post, 201, "xxx"}, {get, 200, "xxx"},
		{post, 201, `"id":"2"`}, {get, 200, `"id":"2"`}} {
		if r, body := l.answer(want.method); r.StatusCode != want.status || !strings.Contains(body, want.text) {
			t.Fatalf("in steps of %d: answer %d is %d %.200s, want %d %s", step, i, r.StatusCode, body, want.status,
				want.text)
		}
	}
}

// TestVersions checks which connections stay open for each HTTP version and Connection header. It also checks that the
// response to HEAD has no body.
func TestVersions(t *testing.T) {
	s := newSurface(t, Options{})
	for _, c := range []struct{ version, header, connection string }{
		{http11, "", ""}, {http11, "Connection: close\r\n", "close"}, {http10, "", "close"},
		{http10, "Connection: keep-alive\r\n", "keep-alive"},
	} {
		l := s.dial()
		l.send(s.text(get, "/", c.version, "", c.header))
		r, body := l.answer(get)
		got := r.Header.Get("Connection")
		if r.Close && got == "" {
			got = "close" // the standard library removes this header
		}
		if r.StatusCode != 200 || !strings.Contains(body, "writableLocations") || got != c.connection {
			t.Errorf("%s %s: %d %q", c.version, c.header, r.StatusCode, got)
		}
		if c.connection == "close" {
			l.ended(c.version + c.header)
			continue
		}
		l.send(s.text(http.MethodHead, "/", http11, "", "") +
			s.text(get, docs+"/none", http11, "", "Connection: close\r\n"))
		if r, body := l.answer(http.MethodHead); r.StatusCode != 405 || body != "" || r.ContentLength == 0 {
			t.Errorf("HEAD: %d %q, length %d", r.StatusCode, body, r.ContentLength)
		}
		if r, _ := l.answer(get); r.StatusCode != 404 {
			t.Errorf("after HEAD: %d", r.StatusCode)
		}
		l.ended("after the last")
	}
}

// TestExpectations checks a client that waits before it sends a body. It must receive "100 Continue" if the server is
// going to read the body. A client whose request is rejected earlier must not receive it.
func TestExpectations(t *testing.T) {
	s := newSurface(t, Options{})
	const expect = "Expect: 100-continue\r\n"
	body := itemOf("1", 10)
	head := strings.TrimSuffix(s.text(post, docs, http11, body, expect), body)
	l := s.dial()
	l.send(head)
	if status, err := l.in.ReadString('\n'); err != nil || status != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", status, err)
	}
	_, _ = l.in.ReadString('\n')
	l.send(body)
	if r, body := l.answer(post); r.StatusCode != 201 || r.Close {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	l.send(head + body) // the client did not wait
	if r, body := l.answer(post); r.StatusCode != 409 || r.Close {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"no key": {"POST " + docs + " HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n" + expect + "\r\n", 401},
		"too large": {s.text(post, docs, http11, "", fmt.Sprintf("Content-Length: %d\r\n", BodyBytesMax+1)+
			expect), 413},
		"no path":   {s.text(post, "/nowhere", http11, "", "Content-Length: 9\r\n"+expect), 401},
		"no method": {s.text(put, "/dbs/d", http11, "", "Content-Length: 9\r\n"+expect), 405},
		"unknown":   {s.text(post, docs, http11, "", "Content-Length: 9\r\nExpect: more\r\n"), 417},
	} {
		l := s.dial()
		l.send(c.head)
		if r, body := l.answer(post); r.StatusCode != c.status || !r.Close {
			t.Errorf("%s: %d, close %v, %s", name, r.StatusCode, r.Close, body)
		}
		l.ended(name)
	}
}

// TestSmuggling checks that a request with an ambiguous end is rejected. The bytes after the request must not be
// executed as another request, and the connection must end.
func TestSmuggling(t *testing.T) {
	s := newSurface(t, Options{})
	smuggled := s.text("DELETE", "/dbs/d", http11, "", "")
	for name, text := range map[string]string{
		"both lengths": s.text(post, docs, http11, "0\r\n\r\n"+smuggled,
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
		"two lengths":      s.text(post, docs, http11, smuggled, "Content-Length: 5\r\nContent-Length: 0\r\n"),
		"equal lengths":    s.text(post, docs, http11, smuggled, "Content-Length: 0\r\nContent-Length: 0\r\n"),
		"bare line end":    s.text(post, docs, http11, smuggled, "X: y\nContent-Length: 0\r\n"),
		"bare return":      s.text(post, docs, http11, smuggled, "X: y\rContent-Length: 0\r\n"),
		"folded":           s.text(post, docs, http11, smuggled, "X: y\r\n Content-Length: 0\r\n"),
		"blank name":       s.text(post, docs, http11, smuggled, "Content-Length : 0\r\n"),
		"coding of 1.0":    s.text(post, docs, http10, "0\r\n\r\n"+smuggled, "Transfer-Encoding: chunked\r\n"),
		"unknown coding":   s.text(post, docs, http11, smuggled, "Transfer-Encoding: x, chunked\r\n"),
		"bare chunk end":   s.text(post, docs, http11, "1\r\nx\n0\r\n\r\n"+smuggled, chunked),
		"chunk overflow":   s.text(post, docs, http11, "1\r\nxy\r\n0\r\n\r\n"+smuggled, chunked),
		"two hosts":        s.text(post, docs, http11, smuggled, "Host: g\r\nContent-Length: 0\r\n"),
		"a head too large": s.text(get, "/", http11, smuggled, "X: "+strings.Repeat("x", headerBytesMax)+"\r\n"),
	} {
		l := s.dial()
		// A server that has rejected the head need not read the body.
		go func() { _, _ = io.WriteString(l, text) }()
		if r, body := l.answer(post); r.StatusCode/100 != 4 && r.StatusCode != 501 || !r.Close ||
			!strings.Contains(body, `"message"`) {
			t.Errorf("%s: %d, close %v, %s", name, r.StatusCode, r.Close, body)
		}
		l.ended(name)
		s.want("GET /dbs/d", "", nil, 200)
	}
}

// TestUnreadBodies checks that a connection stays open after a rejected request with a small body. If the body is long
// or has an unknown length, the connection must end. The client must still be able to read the response.
func TestUnreadBodies(t *testing.T) {
	s := newSurface(t, Options{})
	for name, c := range map[string]struct {
		text string
		ends bool
	}{
		"small":   {s.text(put, "/dbs/d", http11, "abc", ""), false},
		"large":   {s.text(put, "/dbs/d", http11, strings.Repeat("x", discardSmall+1), ""), true},
		"chunked": {s.text(put, "/dbs/d", http11, "0\r\n\r\n", "Transfer-Encoding: chunked\r\n"), true},
	} {
		l := s.dial()
		l.send(c.text)
		if r, _ := l.answer(put); r.StatusCode != 405 || r.Close != c.ends {
			t.Errorf("%s: %d, close %v", name, r.StatusCode, r.Close)
		}
		if c.ends {
			l.ended(name)
			continue
		}
		l.send(s.text(get, "/", http11, "", ""))
		if r, _ := l.answer(get); r.StatusCode != 200 {
			t.Errorf("%s: then %d", name, r.StatusCode)
		}
	}
}

// TestSlowClients checks the time limits for an idle client, for headers, for bodies, and for reading responses.
func TestSlowClients(t *testing.T) {
	s := newSurface(t, Options{IdleTimeout: 5 * time.Minute})
	s.want("POST "+docs, itemOf("1", 200_000), pk, 201)
	read := s.text(get, docs+"/1", http11, "", "")
	create := s.text(post, docs, http11, itemOf("2", 1000), "")
	drip := func(c net.Conn, text string) {
		for i := range len(text) {
			time.Sleep(time.Second)
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		client   func(c net.Conn)
		min, max time.Duration
	}{
		"says nothing":   {func(net.Conn) {}, headerWait, headerWait},
		"drips headers":  {func(c net.Conn) { drip(c, create) }, headerWait, headerWait},
		"drips the next": {func(c net.Conn) { get1(c, read); drip(c, read) }, headerWait / 2, headerWait + time.Second},
		"is idle":        {func(c net.Conn) { get1(c, read) }, 3 * time.Minute, 5 * time.Minute},
		"drips its body": {func(c net.Conn) {
			_, _ = io.WriteString(c, create[:len(create)-900])
			go func() { _, _ = io.Copy(io.Discard, c) }()
			drip(c, create)
		}, requestWait / 2, requestWait + 2*lingerTime},
		"reads no answer": {func(c net.Conn) { _, _ = io.WriteString(c, read) }, answerWait / 2, answerWait},
		"reads a part": {func(c net.Conn) {
			_, _ = io.WriteString(c, read)
			_, _ = c.Read(make([]byte, 9))
		}, answerWait / 2, answerWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The bubble and the signatures have different clocks.
				s.server.opts.Clock = fakeclock.At(testedAt)
				near, far := net.Pipe()
				g, _ := s.server.connLimiter.admit(near)
				began := time.Now()
				left := make(chan bool)
				go func() {
					c.client(far)
					close(left)
				}()
				newConn(s.server, g).serve()
				if took := time.Since(began); took < c.min || took > c.max {
					t.Errorf("duration of the connection: got %s", took)
				}
				far.Close()
				<-left
			})
		})
	}
}

// testedAt is the time of the signatures in TestSlowClients.
var testedAt = time.Now()

// get1 sends a request and reads the whole response.
func get1(c net.Conn, request string) {
	if _, err := io.WriteString(c, request); err != nil {
		return
	}
	if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// TestGracefulStop checks that a server answers the requests that arrive during a shutdown. It covers a request on a
// previously idle connection. The last response must announce the end of the connection. Idle connections must end.
func TestGracefulStop(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := newSurface(t, Options{})
	s.admits = func() (func(), bool) {
		entered <- true
		<-leave
		return func() {}, true
	}
	s.server.idleGap = time.Minute // the test may take a long time
	before := s.accepted()
	idle, busy, late := s.dial(), s.dial(), s.dial()
	// If the server has not accepted a connection yet, the connection ends with the listener.
	eventually.True(t, "the connections are accepted", func() bool { return s.accepted() >= before+3 })
	busy.send(s.text(get, "/", http11, "", "") + s.text(get, "/", http11, "", ""))
	<-entered
	stopped := make(chan error)
	go func() { stopped <- s.server.Shutdown(context.Background()) }()
	eventually.True(t, "the stop", s.server.draining.Load)
	late.send(s.text(get, "/", http11, "", ""))
	<-entered
	leave <- true
	leave <- true
	if r, _ := late.answer(get); r.StatusCode != 200 || !r.Close {
		t.Errorf("a request after the stop began: %d, close %v", r.StatusCode, r.Close)
	}
	late.ended("late")
	if r, _ := busy.answer(get); r.StatusCode != 200 || r.Close {
		t.Errorf("%d, close %v", r.StatusCode, r.Close)
	}
	<-entered
	leave <- true
	if r, _ := busy.answer(get); r.StatusCode != 200 || !r.Close {
		t.Errorf("%d, close %v", r.StatusCode, r.Close)
	}
	busy.ended("busy")
	_ = idle.Close()
	http.DefaultClient.CloseIdleConnections() // close the connection of newSurface
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	s = newSurface(t, Options{})
	before = s.accepted()
	idle = s.dial()
	eventually.True(t, "the connection is accepted", func() bool { return s.accepted() > before })
	go func() { stopped <- s.server.Shutdown(context.Background()) }()
	idle.ended("idle")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestClearAtHTTPS checks that a client that uses HTTP on an HTTPS port receives an explanation, and that other input
// ends the connection.
func TestClearAtHTTPS(t *testing.T) {
	h := httptest.NewTLSServer(http.NotFoundHandler())
	defer h.Close()
	keys := &Keys{Primary: keyOf(0)}
	addr := listen(t, New(newFake(), noScripts{}, Options{Account: &surface{keys: keys},
		TLS: &tls.Config{Certificates: h.TLS.Certificates}}))
	s := &surface{t: t, url: addr}
	l := s.dial()
	l.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	if r, body := l.answer(get); r.StatusCode != 400 || body != "This address requires HTTPS.\n" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	l.ended("HTTP")
	l = s.dial()
	l.send("\x04\x00\x00\x00\x05\x00\x00\x00\x00")
	if b, _ := io.ReadAll(l.in); strings.Contains(string(b), "HTTP") {
		t.Errorf("%q", b)
	}
}

// scribbled is an endless connection. It records the output of the server.
type scribbled struct {
	endless
	written strings.Builder
}

func (s *scribbled) Write(b []byte) (int, error) { return s.written.Write(b) }

// FuzzConnection checks that any input from an unauthenticated client is processed in a limited time. The input must
// cause no failure and grant no access.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte("POST /dbs HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"))
	f.Add([]byte("PUT /dbs/d HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"))
	keys := &Keys{Primary: keyOf(7)}
	defects := new(strings.Builder)
	s := New(newFake(), noScripts{}, Options{Account: &surface{keys: keys},
		Log: slog.New(slog.NewTextHandler(defects, nil))})
	f.Fuzz(func(t *testing.T, sent []byte) {
		nc := &scribbled{endless: endless{request: sent, times: 1}}
		g, _ := s.connLimiter.admit(nc)
		newConn(s, g).serve()
		if out := nc.written.String(); strings.Contains(out, "HTTP/1.1 2") || strings.Contains(out, "HTTP/1.1 500") {
			t.Errorf("request %q: got %q", sent, out)
		}
		if st := s.Stats(); st.Connections.Load() != 0 || st.InFlight.Load() != 0 || st.InFlightBytes.Load() != 0 {
			t.Errorf("%q leaves something counted", sent)
		}
		if defects.Len() > 0 {
			t.Fatalf("%q: %s", sent, defects)
		}
	})
}

// slowly makes item queries run until their context ends. The returned channels receive a value when a query starts,
// and the error with which it ends.
func (s *surface) slowly() (begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}, 1), make(chan error, 1)
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	s.fake.query = func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	return begun, ended
}

// queryText returns a query request.
func (s *surface) queryText() string {
	return s.text(post, docs, http11, `{"query":"SELECT * FROM c"}`,
		"x-ms-documentdb-isquery: True\r\nUser-Agent: tool/1\r\n")
}

// TestClientLeaves checks that a request ends when its client disconnects in any way. The client may have sent further
// requests.
func TestClientLeaves(t *testing.T) {
	s := newSurface(t, Options{})
	begun, ended := s.slowly()
	for name, leave := range map[string]func(c *net.TCPConn){
		"closes": func(c *net.TCPConn) { _ = c.Close() },
		"resets": func(c *net.TCPConn) {
			_ = c.SetLinger(0)
			_ = c.Close()
		},
		"closes its half": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"closes after another request": func(c *net.TCPConn) {
			if runtime.GOOS == "linux" {
				_, _ = io.WriteString(c, s.queryText())
			}
			_ = c.Close()
		},
	} {
		l := s.dial()
		l.send(s.queryText())
		<-begun
		leave(l.Conn.(*net.TCPConn))
		if err := <-ended; err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually.True(t, "the connections have ended", func() bool { return s.server.Stats().InFlight.Load() == 0 })
	l := s.dial()
	s.fake.mu.Lock()
	s.fake.query = nil
	s.fake.mu.Unlock()
	l.send(s.queryText())
	if r, body := l.answer(post); r.StatusCode != 200 {
		t.Errorf("a client that stays: %d %s", r.StatusCode, body)
	}
}

// TestListedSessions checks that connections are listed with their current request, but without item data. A
// cancellation must end the request and the connection.
func TestListedSessions(t *testing.T) {
	s := newSurface(t, Options{})
	begun, ended := s.slowly()
	idle := s.dial()
	idle.send(s.text(get, docs+"/none", http11, "", ""))
	idle.answer(get)
	l := s.dial()
	l.send(s.queryText())
	<-begun
	list, all := s.server.Sessions(1)
	if len(list) != 1 || all < 2 {
		t.Fatalf("%d of %d sessions", len(list), all)
	}
	i := list[0]
	if i.Request != "query items dbs/d/colls/c" || i.Began.IsZero() || i.Key != primaryKey || i.Agent != "tool/1" ||
		i.Requests != 1 || i.Remote.String() != l.LocalAddr().String() || i.Since.IsZero() {
		t.Errorf("%+v", i)
	}
	if _, found := s.server.Cancel(i.Number + 100); found {
		t.Error("found a connection that does not exist")
	}
	if c, found := s.server.Cancel(i.Number); !found || c.Number != i.Number {
		t.Errorf("%+v, %t", c, found)
	}
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	if _, err := l.in.ReadByte(); err == nil {
		t.Error("the connection continues")
	}
	eventually.True(t, "the session is gone", func() bool {
		_, found := s.server.Cancel(i.Number)
		return !found
	})
	idle.send(s.text(get, docs+"/none", http11, "", ""))
	if r, _ := idle.answer(get); r.StatusCode != 404 {
		t.Errorf("the second connection: %d", r.StatusCode)
	}
}

// TestShutdownEndsRequests checks that a request that exceeds the time of a shutdown is canceled.
func TestShutdownEndsRequests(t *testing.T) {
	s := newSurface(t, Options{})
	begun, ended := s.slowly()
	l := s.dial()
	l.send(s.queryText())
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
}
