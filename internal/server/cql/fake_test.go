// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a session that returns a row with the values that it receives. Keywords in a QUERY make it behave
// differently.
type fake struct {
	srv    *Server
	client session.Client
	closed atomic.Bool
	// worked is the number of requests that workers have executed.
	worked atomic.Int64

	mu   sync.Mutex
	late []*session.Call // calls that are pending until release is called
}

var blobs = func() []*session.Metadata {
	var l []*session.Metadata
	var columns []session.Column
	for i := range 8 {
		l = append(l, session.NewMetadata(columns[:i:i]))
		columns = append(columns, session.Column{Keyspace: "ks", Table: "t", Name: fmt.Sprint("c", i),
			Type: &cqltype.Type{Kind: cqltype.Blob}})
	}
	return l
}()

func echo(call *session.Call, values [][]byte) session.Status {
	r := &call.Result
	r.Kind = session.Rows
	r.Metadata = blobs[len(values)]
	r.RowCount = 1
	for _, v := range values {
		r.Cells = cqlwire.AppendBytes(r.Cells, v)
	}
	return session.Done
}

func (f *fake) Query(ctx context.Context, call *session.Call) session.Status {
	word, arg, _ := strings.Cut(string(call.Request.Text), " ")
	r := &call.Result
	switch word {
	case "big": // return a cell with that many bytes
		n, _ := strconv.Atoi(arg)
		return echo(call, [][]byte{make([]byte, n)})
	case "page": // return a cell with that many bytes, or a small cell if the backlog of clients is large
		n, _ := strconv.Atoi(arg)
		if f.srv.Pressed() {
			n = 1000
		}
		return echo(call, [][]byte{make([]byte, n)})
	case "late": // stay pending until release is called
		f.mu.Lock()
		defer f.mu.Unlock()
		echo(call, call.Request.Values)
		f.late = append(f.late, call)
		return session.Pending
	case "soon": // stay pending until another goroutine completes the call, possibly before Query returns
		echo(call, call.Request.Values)
		go call.Complete()
		return session.Pending
	case "early": // complete before Query returns
		echo(call, call.Request.Values)
		call.Complete()
		return session.Pending
	case "long": // execute on a worker and return a cell with that many bytes
		if !call.MayBlock {
			return session.Offload
		}
		f.worked.Add(1)
		if n, err := strconv.Atoi(arg); err == nil {
			return echo(call, [][]byte{make([]byte, n)})
		}
		return echo(call, call.Request.Values)
	case "block": // block a worker until the connection ends
		if !call.MayBlock {
			return session.Offload
		}
		<-ctx.Done()
		return r.Fail(ctx.Err())
	case "ddl":
		if !call.MayBlock {
			return session.Offload
		}
		r.Kind = session.SchemaChanged
		r.Change = session.SchemaChange{Change: "CREATED", Target: "TABLE", Keyspace: "ks", Name: arg}
		f.srv.SchemaChanged(r.Change)
		return session.Done
	case "use":
		r.Kind, r.Keyspace = session.SetKeyspace, arg
		return session.Done
	case "fail":
		return r.Fail(&dberr.AlreadyExists{Keyspace: "ks", Table: arg, Message: "it exists"})
	case "warn":
		r.Warnings = []string{arg}
		r.HasTrace, r.TraceID = call.Request.Tracing, [16]byte{7}
		for _, p := range call.Request.Payload {
			r.Payload = append(r.Payload, session.Payload{Key: p.Key, Value: append([]byte("re:"), p.Value...)})
		}
		return session.Done
	case "cas":
		r.AlwaysMetadata = true
		return echo(call, call.Request.Values)
	}
	return echo(call, call.Request.Values)
}

func (f *fake) Prepare(_ context.Context, call *session.Call) session.Status {
	call.Result.Kind = session.PreparedStatement
	call.Result.Prepared = &session.Prepared{ID: [16]byte{1}, Bind: blobs[2].Columns, PKIndexes: []uint16{0},
		Result: blobs[2]}
	return session.Done
}

func (f *fake) Execute(_ context.Context, call *session.Call) session.Status {
	if call.Request.ID != [16]byte{1} {
		return call.Result.Fail(&dberr.Unprepared{ID: call.Request.ID})
	}
	return echo(call, call.Request.Values)
}

func (f *fake) Batch(_ context.Context, call *session.Call) session.Status {
	var values [][]byte
	for _, s := range call.Request.Statements {
		if s.Prepared {
			values = append(values, s.ID[:1])
		} else {
			values = append(values, s.Text)
		}
	}
	return echo(call, values)
}

func (f *fake) Close() { f.closed.Store(true) }

func (f *fake) Keyspace() string { return "ks" }

// release completes the late calls in reverse order.
func (f *fake) release() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for i := len(late) - 1; i >= 0; i-- {
		late[i].Complete()
	}
}

// bench is a running server with fake sessions.
type bench struct {
	t    testing.TB
	srv  *Server
	addr string

	mu       sync.Mutex
	sessions []*fake

	// untimed counts how often the server has removed a read deadline.
	untimed atomic.Int64
}

func start(t testing.TB, opts Options) *bench {
	if opts.WaitMax == 0 {
		opts.WaitMax = -1 // a slow machine must not reject requests in tests of other features
	}
	t.Helper()
	b := &bench{t: t}
	b.srv = New(func(client session.Client) Session {
		f := &fake{srv: b.srv, client: client}
		b.mu.Lock()
		b.sessions = append(b.sessions, f)
		b.mu.Unlock()
		return f
	}, opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.srv.Serve(watched{l, &b.untimed}) }()
	t.Cleanup(func() {
		b.srv.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		for _, f := range b.sessions {
			if !f.closed.Load() {
				t.Error("a session was not closed")
			}
		}
		st := b.srv.Stats()
		for name, n := range map[string]int64{"connections": st.Connections.Load(), "queued": st.Queued.Load(),
			"working": st.Working.Load()} {
			if n != 0 {
				t.Errorf("%s: %d left", name, n)
			}
		}
	})
	return b
}

// watched is a listener that counts the removals of read deadlines.
type watched struct {
	net.Listener
	untimed *atomic.Int64
}

// Accept implements net.Listener.
func (w watched) Accept() (net.Conn, error) {
	nc, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return watchedConn{nc.(*net.TCPConn), w.untimed}, nil
}

type watchedConn struct {
	*net.TCPConn
	untimed *atomic.Int64
}

// SetReadDeadline implements net.Conn.
func (c watchedConn) SetReadDeadline(at time.Time) error {
	err := c.TCPConn.SetReadDeadline(at)
	if at.IsZero() {
		c.untimed.Add(1)
	}
	return err
}

func (b *bench) session(i int) *fake {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[i]
}

// latest returns the session of the connection that most recently became ready.
func (b *bench) latest() *fake {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[len(b.sessions)-1]
}

// client is a raw client that uses one goroutine.
type client struct {
	t       testing.TB
	nc      net.Conn
	version uint8
	w       cqlwire.Writer
	c       cqlwire.Compression

	segments bool
	in       []byte // unread bytes
	plain    []byte // unread bytes of segments
	large    cqlwire.Assembler
}

type answer struct {
	cqlwire.Header
	prefix cqlwire.Prefix
	body   []byte
}

func dial(t testing.TB, addr string, version uint8) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc, version)
}

func newClient(t testing.TB, nc net.Conn, version uint8) *client {
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(eventually.Limit))
	return &client{t: t, nc: nc, version: version}
}

func dialTLS(t testing.TB, addr string, config *tls.Config, version uint8) *client {
	t.Helper()
	nc, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc, version)
}

// put adds a request to the data that flush sends.
func (c *client) put(stream int16, op cqlwire.Opcode, body []byte) {
	c.putFlags(stream, op, 0, body)
}

func (c *client) putFlags(stream int16, op cqlwire.Opcode, flags byte, body []byte) {
	c.w.Begin(cqlwire.Header{Version: c.version, Stream: stream, Opcode: op, Flags: flags})
	c.w.Buf = append(c.w.Buf, body...)
	c.w.End()
}

func (c *client) query(stream int16, text string, values ...[]byte) {
	q := cqlwire.Query{Text: []byte(text)}
	q.Values = values
	c.put(stream, cqlwire.OpQuery, q.Append(nil, c.version))
}

func (c *client) flush() {
	c.t.Helper()
	c.w.Finish()
	if _, err := c.nc.Write(c.w.Buf); err != nil {
		c.t.Fatal(err)
	}
	c.w.Buf = c.w.Buf[:0]
}

// next reads the next response.
func (c *client) next() (answer, error) {
	for {
		if a, ok, err := c.parse(); ok || err != nil {
			return a, err
		}
		b := make([]byte, 64<<10)
		n, err := c.nc.Read(b)
		if err != nil {
			return answer{}, err
		}
		c.in = append(c.in, b[:n]...)
	}
}

func (c *client) parse() (a answer, ok bool, err error) {
	from := &c.in
	if c.segments {
		if from = &c.plain; len(c.plain) == 0 {
			if ok, err := c.segment(); !ok || err != nil {
				return a, false, err
			}
		}
	}
	h, body, size, ok, err := cqlwire.NextEnvelope(*from, cqlwire.FrameSizeMax)
	if !ok || err != nil {
		return a, ok, err
	}
	*from = (*from)[size:]
	if h.Flags&cqlwire.FlagCompressed != 0 {
		if body, err = cqlwire.DecompressBody(nil, body, c.c, cqlwire.FrameSizeMax); err != nil {
			return a, false, err
		}
	}
	a.Header = h
	a.prefix, a.body, err = cqlwire.SplitPrefix(h.Flags, body)
	return a, true, err
}

func (c *client) segment() (ok bool, err error) {
	s, size, ok, err := cqlwire.NextSegment(c.in, c.c == cqlwire.LZ4)
	if !ok || err != nil {
		return false, err
	}
	payload := append([]byte(nil), s.Payload...)
	if s.UncompressedLen > 0 {
		if payload, err = cqlwire.DecompressSegment(nil, s); err != nil {
			return false, err
		}
	}
	c.in = c.in[size:]
	if s.SelfContained {
		c.plain = payload
		return true, nil
	}
	_, _, done, err := c.large.Add(payload, cqlwire.FrameSizeMax)
	if done {
		c.plain, c.large.Buf = c.large.Buf, nil
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return c.segment()
}

// must reads the next response and checks its opcode.
func (c *client) must(op cqlwire.Opcode) answer {
	c.t.Helper()
	a, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	if a.Opcode != op {
		c.t.Fatalf("got %s %q, want %s", a.Opcode, a.body, op)
	}
	return a
}

func (c *client) rows() *cqlwire.Result {
	c.t.Helper()
	return c.result(c.must(cqlwire.OpResult))
}

func (c *client) result(a answer) *cqlwire.Result {
	c.t.Helper()
	r, err := cqlwire.DecodeResult(a.body, c.version)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *client) mustFail(code cqlwire.ErrorCode, text string) answer {
	c.t.Helper()
	a := c.must(cqlwire.OpError)
	e, err := cqlwire.DecodeError(a.body, a.Version)
	if err != nil || e.Code != code || !strings.Contains(e.Message, text) {
		c.t.Fatalf("got %v (%v), want 0x%04X %s", e, err, int(code), text)
	}
	return a
}

// mustEnd checks that the server closes the connection.
func (c *client) mustEnd() {
	c.t.Helper()
	if a, err := c.next(); err == nil {
		c.t.Fatalf("got %s %q, want an end", a.Opcode, a.body)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		c.t.Fatal("the connection did not end")
	}
}

// hello performs the handshake.
func (c *client) hello(compression cqlwire.Compression, more ...string) *client {
	c.t.Helper()
	c.startup(compression, more...)
	c.must(cqlwire.OpReady)
	return c
}

func (c *client) startup(compression cqlwire.Compression, more ...string) {
	s := cqlwire.Startup{"CQL_VERSION": "3.0.0", "DRIVER_NAME": "test"}
	if compression != cqlwire.NoCompression {
		s["COMPRESSION"] = []string{"", "lz4", "snappy"}[compression]
	}
	for i := 0; i+1 < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	c.put(0, cqlwire.OpStartup, cqlwire.AppendStartup(nil, s))
	c.flush()
	// This response is not framed, but both directions use framing afterward.
	a, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	if a.Opcode == cqlwire.OpReady || a.Opcode == cqlwire.OpAuthenticate {
		c.c, c.segments = compression, c.version >= cqlwire.V5
		c.w.SetFraming(c.segments, compression)
	}
	// Put the response back, so that the next call of next returns it.
	var w cqlwire.Writer
	w.Begin(a.Header)
	w.Buf = append(w.Buf, a.body...)
	w.End()
	if c.segments {
		c.plain = append(w.Buf, c.plain...)
	} else {
		c.in = append(w.Buf, c.in...)
	}
}
