// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// executes returns n EXECUTE requests in the framing of c.
func executes(c *client, n int) []byte {
	e := cqlwire.Execute{ID: append([]byte{1}, make([]byte, 15)...), ResultMetadataID: blobs[1].ID[:]}
	e.Values = [][]byte{make([]byte, 1000)}
	e.SkipMetadata = true
	for i := range n {
		c.put(int16(i), cqlwire.OpExecute, e.Append(nil, c.version))
	}
	c.w.Finish()
	return c.w.Buf
}

// load returns a function that sends the requests and reads their responses. Each round reads as many bytes as the
// first round.
func load(t testing.TB, c *client, data []byte, n int) (round func()) {
	t.Helper()
	if _, err := c.nc.Write(data); err != nil {
		t.Fatal(err)
	}
	size := 0
	for range n {
		a := c.must(cqlwire.OpResult)
		size += cqlwire.HeaderSize + len(a.body)
	}
	if c.segments {
		size += 10 * ((size + cqlwire.SegmentPayloadMax - 1) / cqlwire.SegmentPayloadMax)
	}
	buf := make([]byte, size)
	return func() {
		if _, err := c.nc.Write(data); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.nc, buf); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAllocations checks that the synchronous execution of a prepared statement does not allocate. It covers the path
// from reading the request to writing the response.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := start(t, Options{})
	for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
		c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
		const n = 16
		round := load(t, c, executes(c, n), n)
		if got := testing.AllocsPerRun(500, round) / n; got > 0.1 {
			t.Errorf("v%d: %.2f allocations per request", version, got)
		}
	}
}

// TestIdleConnections checks that an idle connection uses less than 24 KiB, so 10,000 connections fit into 240 MB.
func TestIdleConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector costs memory")
	}
	const n = 1000
	b := start(t, Options{})
	used := func() uint64 {
		runtime.GC()
		runtime.GC() // the second collection empties the pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	// The client sides are included, but they are kept as small as possible.
	conns := make([]net.Conn, n)
	before := used()
	var w cqlwire.Writer
	w.Begin(cqlwire.Header{Version: cqlwire.V4, Opcode: cqlwire.OpStartup})
	w.Buf = cqlwire.AppendStartup(w.Buf, cqlwire.Startup{"CQL_VERSION": "3.0.0"})
	w.End()
	q := cqlwire.Query{Text: []byte("x")}
	q.Values = [][]byte{{1}}
	w.Begin(cqlwire.Header{Version: cqlwire.V4, Opcode: cqlwire.OpQuery})
	w.Buf = q.Append(w.Buf, cqlwire.V4)
	w.End()
	var head [cqlwire.HeaderSize]byte
	body := make([]byte, 1000)
	for i := range conns {
		nc, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = nc
		if _, err := nc.Write(w.Buf); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := io.ReadFull(nc, head[:]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(nc, body[:cqlwire.ParseHeader(head[:]).Length]); err != nil {
				t.Fatal(err)
			}
		}
	}
	per := (used() - before) / n
	t.Logf("%d bytes per idle connection, both ends", per)
	if per > 24<<10 {
		t.Errorf("%d bytes per idle connection", per)
	}
	for _, nc := range conns {
		nc.Close()
	}
}

// BenchmarkEcho measures the cost of the server without a database. The benchmark uses c connections with m requests
// in flight on each connection. A request binds 1 KB and returns 1 KB. The CPU time includes the client and the
// server.
func BenchmarkEcho(bb *testing.B) {
	for _, tc := range []struct{ c, m int }{{1, 1}, {16, 1}, {16, 16}, {16, 128}} {
		for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
			bb.Run(fmt.Sprintf("c=%d/m=%d/v%d", tc.c, tc.m, version), func(bb *testing.B) {
				measure(bb, start(bb, Options{}), tc.c, tc.m, version)
			})
		}
	}
}

func measure(bb *testing.B, b *bench, conns, inFlight int, version uint8) {
	rounds := make([]func(), conns)
	for i := range rounds {
		c := dial(bb, b.addr, version).hello(cqlwire.NoCompression)
		_ = c.nc.SetDeadline(time.Time{})
		rounds[i] = load(bb, c, executes(c, inFlight), inFlight)
	}
	st := b.srv.Stats()
	reads, writes, cpu := st.Reads.Load(), st.Writes.Load(), cpuMicros()
	bb.ReportAllocs()
	bb.ResetTimer()
	var wg sync.WaitGroup
	each := (bb.N + conns*inFlight - 1) / (conns * inFlight)
	for _, round := range rounds {
		wg.Go(func() {
			for range each {
				round()
			}
		})
	}
	wg.Wait()
	n := float64(each * conns * inFlight)
	bb.ReportMetric(float64(cpuMicros()-cpu)/n, "cpu-us/req")
	bb.ReportMetric(float64(st.Reads.Load()-reads)/n, "reads/req")
	bb.ReportMetric(float64(st.Writes.Load()-writes)/n, "writes/req")
}

// committer completes calls in groups, as a log does that is synced periodically.
type committer struct {
	mu    sync.Mutex
	cond  sync.Cond
	calls []*session.Call
	done  bool
}

func (g *committer) run() {
	var group []*session.Call
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.done {
		if len(g.calls) == 0 {
			g.cond.Wait()
			continue
		}
		group, g.calls = g.calls, group[:0]
		g.mu.Unlock()
		for _, call := range group {
			call.Complete()
		}
		g.mu.Lock()
	}
}

// groupSession passes every EXECUTE to the committer.
type groupSession struct {
	*fake
	g *committer
}

func (s *groupSession) Execute(_ context.Context, call *session.Call) session.Status {
	echo(call, call.Request.Values)
	s.g.mu.Lock()
	s.g.calls = append(s.g.calls, call)
	s.g.mu.Unlock()
	s.g.cond.Signal()
	return session.Pending
}

// BenchmarkGroup measures requests that complete later on another goroutine.
func BenchmarkGroup(bb *testing.B) {
	g := &committer{}
	g.cond.L = &g.mu
	stopped := make(chan struct{})
	go func() { g.run(); close(stopped) }()
	defer func() { g.mu.Lock(); g.done = true; g.mu.Unlock(); g.cond.Signal(); <-stopped }()
	for _, tc := range []struct{ c, m int }{{1, 1}, {16, 1}, {16, 16}, {16, 128}} {
		bb.Run(fmt.Sprintf("c=%d/m=%d", tc.c, tc.m), func(bb *testing.B) {
			b := start(bb, Options{})
			b.srv.newSession = func(client session.Client) Session { return &groupSession{&fake{}, g} }
			measure(bb, b, tc.c, tc.m, cqlwire.V4)
		})
	}
}
