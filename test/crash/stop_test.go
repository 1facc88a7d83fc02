// SPDX-License-Identifier: Apache-2.0

//go:build integration

package crash

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/test/process"
)

// TestStop checks that a process exits with code 0 and loses no acknowledged write if it is stopped while clients
// write. Each client must get a correct response, or its connection must end.
func TestStop(t *testing.T) {
	const clients = 32
	dir := filepath.Join(t.TempDir(), "data")
	s := process.Start(t, dir)
	c := s.Dial(t)
	process.Do(t, c, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE crash.s (w int, i int, PRIMARY KEY (w, i))")
	c.Close()
	var acked [clients]atomic.Int64
	var wg sync.WaitGroup
	for w := range clients {
		conn := s.Dial(t)
		wg.Go(func() {
			defer conn.Close()
			for i := int64(0); ; i++ {
				condition := ""
				if i%4 == 0 {
					condition = " IF NOT EXISTS"
				}
				_, err := conn.Query(fmt.Sprintf("INSERT INTO crash.s (w, i) VALUES (%d, %d)%s", w, i, condition))
				if refusal := (*cqlwire.Error)(nil); errors.As(err, &refusal) {
					t.Errorf("a client got the error %v", refusal)
				}
				if err != nil {
					return
				}
				acked[w].Store(i + 1)
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // ensures that all clients write
	_, code := s.Stop(t)
	wg.Wait()
	if code != 0 || s.Stderr() != "" {
		t.Errorf("the process ended with code %d and output %q", code, s.Stderr())
	}
	s = process.Start(t, dir)
	c = s.Dial(t)
	defer c.Close()
	total := int64(0)
	for w := range clients {
		r, err := process.Query(c, dberr.Quorum, fmt.Sprintf("SELECT i FROM crash.s WHERE w = %d", w))
		if err != nil {
			t.Fatal(err)
		}
		if n := acked[w].Load(); int64(r.RowCount) < n {
			t.Errorf("client %d: got %d of %d acknowledged rows", w, r.RowCount, n)
		}
		total += acked[w].Load()
	}
	if total < 100 {
		t.Errorf("only %d writes: the test checks nothing", total)
	}
	t.Logf("%d writes", total)
}
