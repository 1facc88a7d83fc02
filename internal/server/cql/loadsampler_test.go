// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"runtime"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/admission"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/eventually"
)

// press passes samples to the server's admission gate until the gate closes. The samples contain many requests in
// flight, and none of the requests completes. Until the test ends, the server cannot pass its own samples.
func press(t *testing.T, b *bench) {
	t.Helper()
	p := &b.srv.pressure
	p.mu.Lock() // the lock prevents the server from passing samples
	t.Cleanup(p.mu.Unlock)
	s := admission.Sample{Now: b.srv.now() + time.Hour}
	for range 1000 {
		s.Now += admission.SampleEvery
		s.Done += 200
		s.UnderWay = 100_000
		b.srv.gate.Sample(s)
	}
	if !b.srv.gate.Closed() {
		t.Fatal("the gate is open")
	}
}

// ask sends requests with a custom payload and returns the number of rejected requests.
func ask(c *client, n int, priority string) (refused int) {
	for range n {
		q := cqlwire.Query{Text: []byte("x")}
		q.Values = [][]byte{{1}}
		body := cqlwire.AppendPrefix(nil, c.version, &cqlwire.Prefix{
			Payload: []cqlwire.PayloadEntry{{Key: []byte("Priority"), Value: []byte(priority)}}})
		c.putFlags(1, cqlwire.OpQuery, cqlwire.FlagPayload, q.Append(body, c.version))
		c.flush()
		a, err := c.next()
		if err != nil {
			c.t.Fatal(err)
		}
		if a.Opcode == cqlwire.OpError {
			if e, err := cqlwire.DecodeError(a.body, c.version); err != nil || e.Code != cqlwire.CodeOverloaded {
				c.t.Fatalf("%v, %v", e, err)
			}
			refused++
		}
	}
	return refused
}

// TestShed checks that requests under pressure are rejected before a session receives them. Requests with low priority
// must be rejected first. The rejections must be counted. An unknown priority must be an error.
func TestShed(t *testing.T) {
	b := start(t, Options{WaitMax: time.Millisecond})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	if n := ask(c, 100, "low"); n != 0 {
		t.Errorf("%d rejected without pressure", n)
	}
	press(t, b)
	before := b.srv.Stats().Executed.Load()
	const n = 3000
	normal := ask(c, n, "normal")
	other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	low := 0
	for range n / 10 {
		normal += ask(c, 10, "High")
		low += ask(other, 1, "low")
	}
	if normal == 0 || normal == 2*n || low < n/10*95/100 {
		t.Errorf("%d of %d rejected, %d of %d with low priority", normal, 2*n, low, n/10)
	}
	st := b.srv.Gate()
	if st.Refused != uint64(normal+low) || st.RefusedLow != uint64(low) || !st.Closed {
		t.Errorf("%+v, want %d and %d", st, normal+low, low)
	}
	eventually.True(t, "all are counted", func() bool {
		return b.srv.Stats().Executed.Load()-before == int64(2*n+n/10-normal-low)
	})
	q := cqlwire.Query{Text: []byte("x")}
	body := cqlwire.AppendPrefix(nil, c.version, &cqlwire.Prefix{
		Payload: []cqlwire.PayloadEntry{{Key: []byte("Priority"), Value: []byte("urgent")}}})
	open := start(t, Options{WaitMax: -1})
	c = dial(t, open.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	c.putFlags(1, cqlwire.OpQuery, cqlwire.FlagPayload, q.Append(body, c.version))
	c.flush()
	c.mustFail(cqlwire.CodeInvalid, "Unknown priority")
}

// TestLowRole checks that requests of a role with low priority are rejected first.
func TestLowRole(t *testing.T) {
	b := start(t, Options{WaitMax: time.Millisecond, LowPriority: func(role string) bool { return role == "batch" }})
	press(t, b)
	x := &executor{srv: b.srv, out: &output{version: cqlwire.V4}}
	refused := map[string]int{}
	for range 2000 {
		for _, role := range []string{"batch", "app"} {
			x.client = &session.Client{User: role}
			if x.claimant = x.client.Claimant(); !x.letIn(cqlwire.Header{}, nil, 0) {
				refused[role]++
			}
		}
	}
	if refused["app"] == 2000 || refused["batch"] < 1900 {
		t.Errorf("rejected %v", refused)
	}
}

// TestAskIsCheap checks that an admission check does not allocate while the gate is closed.
func TestAskIsCheap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := start(t, Options{WaitMax: time.Millisecond})
	press(t, b)
	x := &executor{srv: b.srv, out: &output{version: cqlwire.V4}}
	x.claimant = (&session.Client{User: "app"}).Claimant()
	if n := testing.AllocsPerRun(1000, func() { x.letIn(cqlwire.Header{}, nil, 0) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWaitInSocket checks how the server computes the time that requests wait in a socket. Data that a busy connection
// finds has waited since the socket was last empty. A connection does not delay data while it waits for the data or
// for its client to read responses.
func TestWaitInSocket(t *testing.T) {
	b := start(t, Options{})
	d := &socketDelay{srv: b.srv}
	d.read(100, 100, false, false) // the first read leaves some data
	first := d.emptied
	d.read(100, 0, false, false)
	if first == 0 || d.waited <= 0 || d.emptied <= first {
		t.Errorf("waited %v since %v, empty at %v", d.waited, first, d.emptied)
	}
	d.emptied = 1
	if d.read(100, 300, false, false); d.emptied != 1+d.waited/4 {
		t.Errorf("a quarter of what came in %v was read: the rest came after %v", d.waited, d.emptied)
	}
	left := d.emptied
	if d.read(100, -1, false, false); d.waited <= 0 || d.emptied != left {
		t.Errorf("waited %v, and the rest is unknown; none of it arrived before %v", d.waited, d.emptied)
	}
	if d.read(100, 0, false, true); d.waited != 0 || d.emptied != 0 {
		t.Errorf("a client that does not read waited for %v", d.waited)
	}
	d.read(100, 0, false, false)
	b.srv.pressure.processor.Store(int64(time.Minute))
	if d.read(100, 0, true, false); d.waited != time.Minute || d.emptied != 0 {
		t.Errorf("a connection that slept waited for %v, others for a processor for a minute", d.waited)
	}
}

// TestHeldByItsClient checks that a connection is marked as held if its client does not read the responses.
func TestHeldByItsClient(t *testing.T) {
	b := start(t, Options{})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	c.query(1, "x")
	c.flush()
	c.rows()
	held := func() (is bool) {
		b.srv.mu.Lock()
		defer b.srv.mu.Unlock()
		for c := range b.srv.conns {
			is = is || c.out.sock.held.Load()
		}
		return is
	}
	if held() {
		t.Error("a reading client delays it")
	}
	for i := range int16(5) {
		c.query(i, "page 8000000")
	}
	c.flush()
	eventually.True(t, "it is held up", held)
}

// TestProcessorWait checks that the runtime reports how long goroutines wait for a processor.
func TestProcessorWait(t *testing.T) {
	p := newProcessorWait()
	eventually.True(t, "a wait", func() bool {
		for range 10_000 {
			runtime.Gosched()
		}
		return p.mean() > 0
	})
}

// BenchmarkLetIn measures the cost of an admission check.
func BenchmarkLetIn(bb *testing.B) {
	b := start(bb, Options{})
	x := &executor{srv: b.srv, out: &output{version: cqlwire.V4}}
	x.claimant = (&session.Client{User: "app"}).Claimant()
	bb.ReportAllocs()
	for bb.Loop() {
		x.letIn(cqlwire.Header{}, nil, 0)
	}
}
