// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestOutOfOrder checks that a response that is ready is sent immediately, even if earlier requests are pending.
func TestOutOfOrder(t *testing.T) {
	b := start(t, Options{})
	c := dial(t, b.addr, cqlwire.V5).hello(cqlwire.NoCompression)
	for i := range int16(5) {
		c.query(i, "late", []byte{byte(i)})
	}
	c.query(5, "x", []byte{5})
	c.query(6, "early", []byte{6})
	c.flush()
	for _, want := range []int16{5, 6} {
		if a := c.must(cqlwire.OpResult); a.Stream != want {
			t.Fatalf("stream %d, want %d", a.Stream, want)
		}
	}
	if n := b.srv.Stats().InFlight.Load(); n != 5 {
		t.Fatalf("%d in flight", n)
	}
	b.session(0).release()
	for want := int16(4); want >= 0; want-- {
		a := c.must(cqlwire.OpResult)
		if v, _, _ := cqlwire.NextCell(c.result(a).Cells); a.Stream != want || v[0] != byte(want) {
			t.Fatalf("stream %d, want %d", a.Stream, want)
		}
	}
	eventually.True(t, "nothing in flight", func() bool {
		return b.srv.Stats().InFlight.Load() == 0 && b.srv.Stats().InFlightBytes.Load() == 0
	})
}

// TestMixture sends thousands of requests of all kinds on several connections. It checks that each request receives
// its own response exactly once.
func TestMixture(t *testing.T) {
	b := start(t, Options{ConnectionInFlightMax: 64})
	words := []string{"x", "soon", "early", "long"}
	for v := uint8(cqlwire.V3); v <= cqlwire.V5; v++ {
		c := dial(t, b.addr, v).hello(cqlwire.LZ4)
		t.Run(cqlwire.Versions[v-3], func(t *testing.T) {
			t.Parallel()
			const n = 3000
			for i := range int16(n) {
				c.query(i, words[i%4], bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+int(i)%700))
			}
			c.w.Finish()
			go func() { _, _ = c.nc.Write(c.w.Buf) }()
			seen := map[int16]bool{}
			for range n {
				a := c.must(cqlwire.OpResult)
				got, _, _ := cqlwire.NextCell(c.result(a).Cells)
				i := a.Stream
				if seen[i] || !bytes.Equal(got, bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+int(i)%700)) {
					t.Fatalf("stream %d: %d bytes, seen before: %t", i, len(got), seen[i])
				}
				seen[i] = true
			}
		})
	}
}

// TestEvents checks that an event arrives before the result of the statement that caused it. All other registered
// connections must also receive the event.
func TestEvents(t *testing.T) {
	b := start(t, Options{})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	other := dial(t, b.addr, cqlwire.V5).hello(cqlwire.LZ4)
	deaf := dial(t, b.addr, cqlwire.V5).hello(cqlwire.LZ4)
	for _, c := range []*client{c, other} {
		c.put(1, cqlwire.OpRegister,
			cqlwire.AppendRegister(nil, []string{"schema_change", cqlwire.StatusChange, cqlwire.TopologyChange}))
		c.flush()
		c.must(cqlwire.OpReady)
	}
	for i := range int16(20) {
		c.query(i, "ddl tab")
		c.flush()
		for _, c := range []*client{c, other} {
			a := c.must(cqlwire.OpEvent)
			if e, err := cqlwire.DecodeEvent(a.body); err != nil || a.Stream != -1 || e.Schema.Name != "tab" ||
				e.Schema.Change != "CREATED" {
				t.Fatal(a.Header, e, err)
			}
		}
		if r := c.rows(); r.Kind != cqlwire.ResultSchemaChange || r.Change.Name != "tab" {
			t.Fatalf("%+v", r)
		}
	}
	deaf.query(1, "x")
	deaf.flush()
	deaf.rows() // no event arrives before this response
}

// TestTooManyConnections checks that a connection above the limit receives an error.
func TestTooManyConnections(t *testing.T) {
	b := start(t, Options{ConnectionsMax: 2, AddressConnectionsMax: 2})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	third := dial(t, b.addr, cqlwire.V4)
	third.mustFail(cqlwire.CodeOverloaded, "Too many connections")
	third.mustEnd()
	c.nc.Close()
	eventually.True(t, "a place is free", func() bool { return b.srv.Stats().Connections.Load() < 2 })
	dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	if n := b.srv.Stats().Refused.Load(); n != 1 {
		t.Error(n)
	}
}

// TestConnectionInFlight checks the limit of requests in flight on a connection. At the limit, the server does not
// read from the connection. If the client has requested THROW_ON_OVERLOAD, it must receive OVERLOADED instead.
func TestConnectionInFlight(t *testing.T) {
	b := start(t, Options{ConnectionInFlightMax: 3})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	for i := range int16(10) {
		c.query(i, "late")
	}
	c.flush()
	f := b.session(0)
	lateCalls := func(n int) func() bool {
		return func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.late) == n }
	}
	for answered := 0; answered < 10; {
		n := min(3, 10-answered)
		eventually.True(t, "the bound is reached", lateCalls(n))
		f.release()
		for range n {
			c.rows()
			answered++
		}
	}
	c = dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression, "THROW_ON_OVERLOAD", "1")
	for i := range int16(4) {
		c.query(i, "late")
	}
	c.flush()
	if a := c.mustFail(cqlwire.CodeOverloaded, "on this connection"); a.Stream != 3 {
		t.Error(a.Stream)
	}
	b.session(1).release()
	for range 3 {
		c.rows()
	}
}

// TestNodeBounds checks the limits of the node. They limit the requests in flight, their bytes, and the requests that
// wait for a worker.
func TestNodeBounds(t *testing.T) {
	t.Run("requests", func(t *testing.T) {
		b := start(t, Options{InFlightMax: 2})
		c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
		for i := range int16(3) {
			c.query(i, "late")
		}
		c.flush()
		c.mustFail(cqlwire.CodeOverloaded, "Too many requests are in flight on this node")
		b.session(0).release()
		c.rows()
		c.rows()
	})
	t.Run("bytes", func(t *testing.T) {
		b := start(t, Options{InFlightBytesMax: 300_000})
		for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
			c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
			// The request arrives in parts, so up to twice its size is counted.
			c.query(1, "x", make([]byte, 100_000))
			c.flush()
			c.rows()
			// If no memory is available for a segment, the connection ends. The bytes of the first request must be
			// released before the second request arrives.
			eventually.True(t, "nothing is in flight", func() bool { return b.srv.Stats().InFlightBytes.Load() == 0 })
			c.query(2, "x", make([]byte, 2_000_000))
			c.query(3, "x")
			c.flush()
			if a := c.mustFail(cqlwire.CodeOverloaded, "Too many bytes are in flight"); a.Stream != 2 {
				t.Error(a.Stream)
			}
			c.rows()
		}
		if n := b.srv.Stats().Overloaded.Load(); n != 2 {
			t.Error(n)
		}
	})
	t.Run("workers", func(t *testing.T) {
		b := start(t, Options{Workers: 2, WorkQueueMax: 1})
		blocked := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
		for i := range int16(3) {
			blocked.query(i, "block")
		}
		blocked.flush()
		eventually.True(t, "the queue is full", func() bool { return b.srv.Stats().Queued.Load() == 1 })
		c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
		c.query(1, "long")
		c.query(2, "x")
		c.flush()
		c.mustFail(cqlwire.CodeOverloaded, "long-running")
		c.rows()
		blocked.nc.Close()
		// The waiting request is executed after the two blocked requests end. Until then, the queue is full.
		eventually.True(t, "workers are free", func() bool {
			return b.srv.Stats().Queued.Load() == 0 && b.srv.Stats().Working.Load() == 0
		})
		c.query(3, "long")
		c.flush()
		c.rows()
	})
}

// TestFrameBound checks that a request above the limit is rejected and its bytes are skipped. It covers connections
// with and without compression. A response that does not fit into a frame becomes an error.
func TestFrameBound(t *testing.T) {
	b := start(t, Options{FrameBytesMax: 2 << 20})
	for _, tc := range []struct {
		version uint8
		c       cqlwire.Compression
	}{{3, cqlwire.NoCompression}, {4, cqlwire.LZ4}, {4, cqlwire.Snappy}, {5, cqlwire.NoCompression}, {5, cqlwire.LZ4}} {
		c := dial(t, b.addr, tc.version).hello(tc.c)
		c.query(1, "x", make([]byte, 3<<20)) // compress well because all bytes are zero
		c.query(2, "x", []byte("y"))
		c.query(3, "big 2000000")
		c.flush()
		if a := c.mustFail(cqlwire.CodeInvalid, "Request is too big: length 3145"); a.Stream != 1 {
			t.Error(a.Stream)
		}
		c.rows()
		c.mustFail(cqlwire.CodeServer, "The response is too big")
	}
	// Clients that have not logged in have a lower limit.
	c := dial(t, b.addr, cqlwire.V4)
	c.put(1, cqlwire.OpStartup, make([]byte, 100_000))
	c.flush()
	c.mustFail(cqlwire.CodeInvalid, "Request is too big")
}

// TestSlowReader checks that the server stops reading from a client that does not read. When the client reads, it must
// receive all responses.
func TestSlowReader(t *testing.T) {
	const n, size = 600, 100_000
	b := start(t, Options{OutputBytesMax: 1 << 20})
	for _, word := range []string{"big", "soon"} {
		c := dial(t, b.addr, cqlwire.V5).hello(cqlwire.NoCompression)
		before := b.srv.Stats().Requests[cqlwire.OpQuery].Load()
		written := make(chan struct{})
		go func() {
			defer close(written)
			for i := range int16(n) {
				if word == "big" {
					c.query(i, "big 100000")
				} else {
					c.query(i, word, make([]byte, size))
				}
			}
			c.w.Finish()
			_, _ = c.nc.Write(c.w.Buf)
		}()
		<-time.After(100 * time.Millisecond) // allow enough time for a faulty server to execute too many requests
		if done := b.srv.Stats().Requests[cqlwire.OpQuery].Load() - before; done > n*3/4 {
			t.Errorf("%s: %d requests were executed for a client that does not read", word, done)
		}
		for range n {
			c.rows()
		}
		<-written
	}
}

// TestSlowReaderOfLongWork checks a client that does not read. Workers must stop executing its requests when the
// maximum amount of responses is waiting. When the client reads, the requests must be executed. The requests of other
// clients must be executed without delay.
func TestSlowReaderOfLongWork(t *testing.T) {
	const n, size = 40, 1_500_000
	b := start(t, Options{OutputBytesMax: 1 << 20, Workers: 2})
	for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
		c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
		s := b.latest()
		for i := range int16(n) {
			c.query(i, fmt.Sprint("long ", size))
		}
		c.flush()
		eventually.True(t, "requests wait", func() bool { return b.srv.Stats().Parked.Load() > n/2 })
		if done := s.worked.Load(); done > n/4 {
			t.Errorf("version %d: %d requests were executed for a client that does not read", version, done)
		}
		other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
		other.query(1, "long")
		other.flush()
		other.rows()
		for range n {
			c.rows()
		}
		if done := s.worked.Load(); done != n || b.srv.Stats().Parked.Load() != 0 {
			t.Errorf("version %d: %d requests executed, %d left", version, done, b.srv.Stats().Parked.Load())
		}
	}
	// A client that disconnects must leave no requests in flight or in the queue.
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	for i := range int16(n) {
		c.query(i, fmt.Sprint("long ", size))
	}
	c.flush()
	eventually.True(t, "requests wait", func() bool { return b.srv.Stats().Parked.Load() > n/2 })
	c.nc.Close()
	eventually.True(t, "nothing is in flight", func() bool {
		return b.srv.Stats().InFlight.Load() == 0 && b.srv.Stats().Parked.Load() == 0
	})
}

// TestWriteTimeout checks that the server disconnects a client that does not read before the write timeout.
func TestWriteTimeout(t *testing.T) {
	closed := make(chan error, 1)
	b := start(t, Options{WriteTimeout: 100 * time.Millisecond,
		Closed: func(_ netip.AddrPort, reason error) { closed <- reason }})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	for i := range int16(20) {
		c.query(i, "big 4000000")
	}
	c.flush()
	select {
	case err := <-closed:
		if !errors.Is(err, ErrSlowClient) || b.srv.Stats().Slow.Load() != 1 {
			t.Fatal(err)
		}
	case <-time.After(eventually.Limit):
		t.Fatal("the log was not truncated")
	}
}

// TestHandshakeTimeout checks that the server disconnects a client that does not complete the handshake in time.
// Requests must not prevent this. A ready connection has no such limit.
func TestHandshakeTimeout(t *testing.T) {
	for timeout := 50 * time.Millisecond; ; timeout *= 2 {
		b := start(t, Options{HandshakeTimeout: timeout})
		c := dial(t, b.addr, cqlwire.V4)
		c.put(1, cqlwire.OpOptions, nil)
		c.flush()
		a, err := c.next()
		for ; err == nil; a, err = c.next() {
			if a.Opcode != cqlwire.OpSupported {
				t.Fatalf("opcode %d", a.Opcode)
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a client that only requests options is not disconnected")
		}
		c = dial(t, b.addr, cqlwire.V4)
		c.put(0, cqlwire.OpStartup, cqlwire.AppendStartup(nil, cqlwire.Startup{"CQL_VERSION": "3.0.0"}))
		c.flush()
		if _, err := c.next(); err != nil {
			continue // the machine was too slow
		}
		eventually.True(t, "a ready connection has no deadline", func() bool { return b.untimed.Load() > 0 })
		c.query(1, "x")
		c.flush()
		c.rows()
		return
	}
}

// TestShutdown checks that Shutdown answers the requests in flight and the requests that arrive during its wait. Calls
// that complete after the connection has ended must have no effect.
func TestShutdown(t *testing.T) {
	b := start(t, Options{})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	c.query(1, "late")
	c.query(2, "x")
	c.flush()
	c.rows()
	done := make(chan struct{})
	go func() { b.srv.Shutdown(context.Background()); close(done) }()
	eventually.True(t, "no new requests", b.srv.draining.Load)
	select {
	case <-done:
		t.Fatal("it did not wait")
	default:
	}
	eventually.True(t, "the connection has heard of it", func() (heard bool) {
		b.srv.mu.Lock()
		defer b.srv.mu.Unlock()
		for c := range b.srv.conns {
			heard = heard || c.shutdown.notified.Load()
		}
		return heard
	})
	// A request that arrives while a response is pending receives a response. The same applies to a request that
	// arrives immediately after a response.
	c.query(3, "x")
	c.flush()
	if a := c.must(cqlwire.OpResult); a.Stream != 3 {
		t.Errorf("got a response on stream %d, want none", a.Stream)
	}
	b.session(0).release()
	if a := c.must(cqlwire.OpResult); a.Stream != 1 {
		t.Errorf("got a response on stream %d, want none", a.Stream)
	}
	c.mustEnd()
	c.nc.Close()
	<-done

	b = start(t, Options{})
	c = dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	c.query(1, "late")
	c.query(2, "x")
	c.flush()
	c.rows()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	b.srv.Shutdown(ctx)
	c.mustEnd()
	b.session(0).release()
	if n := b.srv.Stats().InFlight.Load(); n != 0 {
		t.Error(n)
	}
}

func certificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTLS checks that requests and responses can use TLS.
func TestTLS(t *testing.T) {
	b := start(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
		c := dialTLS(t, b.addr, &tls.Config{InsecureSkipVerify: true}, version).hello(cqlwire.LZ4)
		go func() {
			for i := range int16(200) {
				c.query(i, []string{"x", "soon", "long"}[i%3], make([]byte, int(i)*100))
				c.w.Finish()
				_, _ = c.nc.Write(c.w.Buf)
				c.w.Buf = c.w.Buf[:0]
			}
		}()
		for range 200 {
			a := c.must(cqlwire.OpResult)
			if v, _, _ := cqlwire.NextCell(c.result(a).Cells); len(v) != int(a.Stream)*100 {
				t.Fatal(a.Stream, len(v))
			}
		}
	}
	plain := dial(t, b.addr, cqlwire.V4)
	plain.put(1, cqlwire.OpOptions, nil)
	plain.flush()
	plain.must(cqlwire.OpError)
	plain.mustEnd()
	for _, i := range b.srv.Clients() {
		if !i.Encrypted {
			t.Errorf("%+v", i)
		}
	}
}

// TestClient checks that a session receives the description of its client.
func TestClient(t *testing.T) {
	b := start(t, Options{})
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression, "DRIVER_VERSION", "1.2")
	got := b.session(0).client
	want := session.Client{Remote: netip.MustParseAddrPort(c.nc.LocalAddr().String()),
		Local: netip.MustParseAddrPort(b.addr), Version: 4, DriverName: "test", DriverVersion: "1.2",
		Options: map[string]string{"CQL_VERSION": "3.0.0", "DRIVER_NAME": "test", "DRIVER_VERSION": "1.2"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
