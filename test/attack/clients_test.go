// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// request is a frame with a query, without values and with the largest pages there are.
func request(stream int16, text string) []byte {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.PageSize = dberr.One, 1<<20
	return rawclient.AppendFrame(nil, stream, cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
}

// TestUnreadPages proves A8: clients that ask for large pages and never read them hold no more than their share of
// memory, and others do not wait for them.
func TestUnreadPages(t *testing.T) {
	v := startVictim(t)
	v.fill(400, 64<<10)
	v.observe()
	v.mute(200, func(c *rawclient.Conn) {
		for i := range int16(4) {
			if _, err := c.Write(request(i, "SELECT v FROM ks.big")); err != nil {
				return // cut off
			}
		}
	})
	<-time.After(seconds(3))
	v.endure()
}

// mute connects clients at once, each of which does as it is told and then neither writes nor reads.
func (v *victim) mute(n int, do func(c *rawclient.Conn)) {
	v.t.Helper()
	for range n {
		c, err := rawclient.Dial(context.Background(), v.CQL, rawclient.Options{})
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(func() { c.Close() })
		go do(c)
	}
}

// TestPartialFrames proves A8: frames that never end hold no more than their share of memory.
func TestPartialFrames(t *testing.T) {
	v := startVictim(t)
	v.observe()
	v.mute(200, func(c *rawclient.Conn) {
		frame := make([]byte, 8<<20)
		copy(frame, rawclient.AppendFrame(nil, 1, cqlwire.OpQuery, nil))
		binary.BigEndian.PutUint32(frame[5:], 200<<20) // more is to come
		_ = c.SetDeadline(time.Now().Add(seconds(3)))
		_, _ = c.Write(frame) // it may be refused in the middle
	})
	<-time.After(seconds(3))
	v.endure()
}

// TestStrangers proves A1 and A8: connections that never log in hold next to nothing.
func TestStrangers(t *testing.T) {
	v := startVictim(t)
	v.observe()
	for range 500 {
		nc, err := net.Dial("tcp", v.CQL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		_, _ = nc.Write([]byte{4, 0, 0, 1, 1, 0, 0, 0xff, 0xff}) // half of a STARTUP
	}
	<-time.After(seconds(1))
	v.endure()
}

// pour writes large rows until it is told to stop, and goes on after refusals.
func (v *victim) pour() (stop func()) {
	c := v.Dial(v.t)
	if _, err := c.Query("CREATE TABLE ks.poured (k int PRIMARY KEY, v text)"); err != nil {
		v.t.Fatal(err)
	}
	value := strings.Repeat("x", 100<<10)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for k := 0; ; k++ {
			select {
			case <-done:
				return
			default:
				_, _ = c.Query(
					fmt.Sprintf("INSERT INTO ks.poured (k, v) VALUES (%d, '%s')", k, value))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		c.Close()
	}
}
