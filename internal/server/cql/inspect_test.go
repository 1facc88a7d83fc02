// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestSessions checks that Sessions returns the connections with the most requests in flight. It must not return more
// than the requested number. Each entry must contain the number of the connection and its requests in flight. The
// count of requests in flight must decrease with each response, in any order.
func TestSessions(t *testing.T) {
	b := start(t, Options{})
	for range 20 {
		dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	}
	busy := dial(t, b.addr, cqlwire.V5).hello(cqlwire.NoCompression)
	for i := range int16(5) {
		busy.query(i, "late")
	}
	busy.query(9, "block")
	busy.flush()
	var first SessionInfo
	eventually.True(t, "six requests are under way", func() bool {
		list, all := b.srv.Sessions(3)
		if all != 21 || len(list) != 3 {
			t.Fatalf("%d of %d sessions", len(list), all)
		}
		for _, i := range list {
			if i.UnderWay > 0 {
				first = i
			}
		}
		return first.UnderWay == 6
	})
	if !first.Ready || first.Version != cqlwire.V5 || first.Keyspace != "ks" || first.Since.IsZero() ||
		first.Number == 0 {
		t.Errorf("%+v", first)
	}
	b.latest().release()
	for range 5 {
		busy.rows()
	}
	eventually.True(t, "one is under way", func() bool {
		list, _ := b.srv.Sessions(1000)
		numbers, underWay := map[uint64]bool{}, 0
		for _, i := range list {
			numbers[i.Number] = true
			underWay += i.UnderWay
		}
		if len(numbers) != 21 {
			t.Fatalf("%d numbers of 21 sessions", len(numbers))
		}
		return underWay == 1
	})
	if list, all := b.srv.Sessions(0); len(list) != 0 || all != 21 {
		t.Errorf("%d of %d sessions, none were requested", len(list), all)
	}
}

// TestCancel checks that Cancel immediately ends a session, including its requests on workers. Other sessions must not
// be affected.
func TestCancel(t *testing.T) {
	closed := make(chan error, 10)
	b := start(t, Options{Closed: func(_ netip.AddrPort, err error) { closed <- err }})
	other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	busy := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	busy.query(1, "block")
	busy.flush()
	var number uint64
	eventually.True(t, "a request is under way", func() bool {
		list, _ := b.srv.Sessions(10)
		for _, i := range list {
			if i.UnderWay > 0 {
				number = i.Number
			}
		}
		return number != 0
	})
	if _, found := b.srv.Cancel(1); found {
		t.Error("a session that does not exist was canceled")
	}
	if i, found := b.srv.Cancel(number); !found || i.UnderWay != 1 {
		t.Errorf("%+v was canceled: %t", i, found)
	}
	if err := <-closed; !errors.Is(err, ErrCancelled) {
		t.Errorf("it ended with %v", err)
	}
	eventually.True(t, "nothing is under way", func() bool {
		st := b.srv.Stats()
		return st.Working.Load() == 0 && st.InFlight.Load() == 0 && st.Connections.Load() == 1
	})
	other.query(1, "here", []byte("x"))
	other.flush()
	other.rows()
	if _, found := b.srv.Cancel(number); found {
		t.Error("a session was canceled twice")
	}
}
