// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestMuteClientsHinderNobody checks clients that do not read large pages. They must use no more memory than twice the
// limit. Another client must receive all responses to its requests.
func TestMuteClientsHinderNobody(t *testing.T) {
	const clients, bound = 100, 20_000_000
	b := start(t, Options{BacklogMax: bound})
	st := b.srv.Stats()
	other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	for range clients {
		c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
		for i := range int16(5) {
			c.query(i, "page 2000000")
		}
		c.flush()
		for range 5 {
			other.query(1, "page 2000000")
			other.flush()
			other.rows()
		}
		if n := st.Backlog.Load(); n > 2*bound {
			t.Fatalf("%d bytes wait for clients, the bound is %d", n, bound)
		}
	}
	eventually.True(t, "some are cut off", func() bool { return st.Slow.Load() > 0 && !b.srv.Pressed() })
}

// TestPartsHoldNoBuffers checks that a client that has sent part of a message holds a buffer only if the part is
// large. Such a buffer must be counted.
func TestPartsHoldNoBuffers(t *testing.T) {
	const clients = 300
	b := start(t, Options{})
	before := heap()
	for i := range clients {
		c := dial(t, b.addr, cqlwire.V4)
		part := rawclient.AppendFrame(nil, 1, cqlwire.OpQuery, make([]byte, 60<<10))[:2000]
		if i%2 == 0 {
			c.hello(cqlwire.NoCompression)
		} else {
			part = rawclient.AppendFrame(nil, 1, cqlwire.OpStartup, make([]byte, 4000))[:2000]
		}
		if _, err := c.nc.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "all parts are read", func() bool { return b.srv.Stats().BytesIn.Load() >= clients*2000 })
	if each := (heap() - before) / clients; each > 20<<10 {
		t.Errorf("a connection with a part of a message takes %d bytes", each)
	}
	c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	if _, err := c.nc.Write(rawclient.AppendFrame(nil, 1, cqlwire.OpQuery, make([]byte, 60<<10))[:50<<10]); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "a large part counts", func() bool { return b.srv.Stats().InFlightBytes.Load() == bufferSize })
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // empty the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSlowSender checks that a client that has sent part of a message is disconnected if it does not complete the
// message in time. A client that completes its message in time must not be disconnected.
func TestSlowSender(t *testing.T) {
	for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
		for timeout := 200 * time.Millisecond; !slowSender(t, version, timeout); timeout *= 2 {
		}
	}
}

// slowSender returns false if the machine did not send a whole message within the timeout.
func slowSender(t *testing.T, version uint8, timeout time.Duration) bool {
	t.Helper()
	closed := make(chan error, 1)
	b := start(t, Options{WriteTimeout: timeout,
		Closed: func(_ netip.AddrPort, reason error) { closed <- reason }})
	c := dial(t, b.addr, version).hello(cqlwire.NoCompression)
	before := b.untimed.Load()
	c.query(1, "x", make([]byte, 300<<10))
	c.w.Finish()
	if _, err := c.nc.Write(c.w.Buf); err != nil {
		return false
	}
	c.w.Buf = c.w.Buf[:0]
	if _, err := c.next(); err != nil {
		return false
	}
	eventually.True(t, "no deadline is left behind", func() bool { return b.untimed.Load() > before })
	c.query(1, "x")
	c.flush()
	c.rows()
	c.query(1, "x", make([]byte, 300<<10))
	c.w.Finish()
	_, _ = c.nc.Write(c.w.Buf[:200<<10]) // the server may already have closed the connection
	c.mustEnd()
	if err := <-closed; !errors.Is(err, ErrSlowClient) {
		t.Error(err)
	}
	if n := b.srv.Stats().Slow.Load(); n != 1 {
		t.Errorf("%d were counted", n)
	}
	return true
}

// TestStrangersSendLittle checks that a client that has not logged in cannot make the server wait for a large message.
func TestStrangersSendLittle(t *testing.T) {
	b := start(t, Options{})
	c := dial(t, b.addr, cqlwire.V4)
	head := rawclient.AppendFrame(nil, 0, cqlwire.OpStartup, nil)
	binary.BigEndian.PutUint32(head[5:], 5000)
	if _, err := c.nc.Write(head); err != nil {
		t.Fatal(err)
	}
	c.mustFail(cqlwire.CodeInvalid, "")
}
