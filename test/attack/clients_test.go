// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

// request returns a frame with a query that has no values and requests the maximum page size.
func request(stream int16, text string) []byte {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.PageSize = dberr.One, 1<<20
	return rawclient.AppendFrame(nil, stream, cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
}

// TestUnreadPages checks A8 for clients that request large pages and never read them. Such clients must use no more
// than their share of memory and must not delay other clients.
func TestUnreadPages(t *testing.T) {
	v := startVictim(t)
	v.fill(400, 64<<10)
	v.observe()
	for range rounds(3) {
		leave := v.mute(200, func(c *rawclient.Conn) {
			for i := range int16(4) {
				if _, err := c.Write(request(i, "SELECT v FROM ks.big")); err != nil {
					return // the connection was closed
				}
			}
		})
		v.until("responses wait for clients that do not read them", func() bool {
			return v.metric("cql_unread_bytes") >= 32<<20
		})
		leave()
	}
	v.endure()
}

// mute connects n clients concurrently. After do, the clients neither write nor read until leave is called.
func (v *victim) mute(n int, do func(c *rawclient.Conn)) (leave func()) {
	v.t.Helper()
	var held []*rawclient.Conn
	var doing sync.WaitGroup
	leave = func() {
		for _, c := range held {
			c.Close()
		}
		doing.Wait()
	}
	v.t.Cleanup(leave)
	for range n {
		c, err := rawclient.Dial(context.Background(), v.CQL, rawclient.Options{})
		if err != nil {
			v.t.Fatal(err)
		}
		held = append(held, c)
		doing.Go(func() { do(c) })
	}
	return leave
}

// TestPartialFrames checks A8 for incomplete frames, which must use no more than their share of memory.
func TestPartialFrames(t *testing.T) {
	v := startVictim(t)
	v.observe()
	frame := make([]byte, 8<<20)
	copy(frame, rawclient.AppendFrame(nil, 1, cqlwire.OpQuery, nil))
	binary.BigEndian.PutUint32(frame[5:], 200<<20) // the frame announces more bytes than the client sends
	for range rounds(2) {
		before := v.metric("cql_bytes_received_total")
		leave := v.mute(200, func(c *rawclient.Conn) { _, _ = c.Write(frame) }) // the write may fail
		v.until("parts of frames are held", func() bool {
			return v.metric("cql_bytes_received_total")-before >= 64<<20
		})
		leave()
	}
	v.endure()
}

// TestStrangers checks A1 and A8 for connections that never log in, which must use almost no resources.
func TestStrangers(t *testing.T) {
	v := startVictim(t)
	v.observe()
	for range rounds(4) {
		before := v.metric("cql_connections_accepted_total")
		held := v.crowd(500, []byte{4, 0, 0, 1, 1, 0, 0, 0xff, 0xff}) // half of a STARTUP
		v.until("they are all connected", func() bool {
			return v.metric("cql_connections_accepted_total")-before >= 500
		})
		for _, nc := range held {
			nc.Close()
		}
	}
	v.endure()
}

// crowd opens connections that send only the bytes in first.
func (v *victim) crowd(n int, first []byte) (held []net.Conn) {
	v.t.Helper()
	for range n {
		nc, err := net.Dial("tcp", v.CQL)
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(func() { nc.Close() })
		_, _ = nc.Write(first)
		held = append(held, nc)
	}
	return held
}

// pouredBytes is the size of a row of pour.
const pouredBytes = 100 << 10

// pour writes large rows until stop is called, and continues after rejections. pour counts the acknowledged rows.
func (v *victim) pour() (poured *atomic.Int64, stop func()) {
	c := v.dial()
	process.Do(v.t, c, "CREATE TABLE ks.poured (k int PRIMARY KEY, v text)")
	value := strings.Repeat("x", pouredBytes)
	poured = new(atomic.Int64)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for k := 0; ; k++ {
			select {
			case <-done:
				return
			default:
				text := fmt.Sprintf("INSERT INTO ks.poured (k, v) VALUES (%d, '%s')", k, value)
				if _, err := c.Query(text); err == nil {
					poured.Add(1)
				}
			}
		}
	}()
	return poured, func() {
		close(done)
		<-ended
		c.Close()
	}
}
