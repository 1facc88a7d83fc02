// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestBacklog checks the limit of the backlog with many clients that do not read. The node must not hold more than the
// limit plus one response for each client that arrived at the same time. The server must close their connections while
// it serves another client. After the server has been closed, the counted backlog must be zero.
func TestBacklog(t *testing.T) {
	const clients, bound = 60, 60_000_000
	b := start(t, Options{OutputBytesMax: 1 << 20, BacklogMax: bound})
	st := b.srv.Stats()
	other := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
	most := int64(0)
	for range clients {
		c := dial(t, b.addr, cqlwire.V4).hello(cqlwire.NoCompression)
		for i := range int16(3) {
			c.query(i, "big 4000000")
		}
		c.flush()
		<-time.After(10 * time.Millisecond) // clients must not all arrive at the same time
		most = max(most, st.Backlog.Load())
	}
	for range 100 {
		most = max(most, st.Backlog.Load())
		other.query(1, "x")
		other.flush()
		other.rows()
	}
	if most > 5*bound/2 { // without a limit, the backlog would contain all responses, which are four times as large
		t.Errorf("%d bytes waited for clients, the bound is %d", most, bound)
	}
	eventually.True(t, "some are cut off", func() bool {
		return st.Connections.Load() < clients+1 && st.Backlog.Load() <= bound
	})
	b.srv.Close()
	if n := st.Backlog.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}
