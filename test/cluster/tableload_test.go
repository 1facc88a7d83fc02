// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

// tableLoad consists of clients that write rows.
type tableLoad struct {
	f     *fleet
	stop  chan struct{}
	value atomic.Int32
	acked atomic.Int64
	mu    sync.Mutex
	// wrote holds the values of acknowledged statements. The feed must contain each of these values once.
	wrote map[int32]rowAt
}

// statement draws a statement and the values that it leaves in rows.
func (l *tableLoad) statement(dice *rand.Rand) (text string, wrote map[int32]rowAt) {
	k, c, v := dice.Int32N(tableKeys), dice.Int32N(tableRows), l.value.Add(1)
	insert := func(k, c, v int32) string {
		return fmt.Sprintf("INSERT INTO shop.rows (k, c, v) VALUES (%d, %d, %d)", k, c, v)
	}
	switch dice.IntN(14) {
	case 0:
		return fmt.Sprintf("DELETE FROM shop.rows WHERE k = %d AND c = %d", k, c), nil
	case 1:
		return fmt.Sprintf("DELETE FROM shop.rows WHERE k = %d AND c >= %d AND c < %d", k, c, c+2), nil
	case 2:
		return fmt.Sprintf("DELETE FROM shop.rows WHERE k = %d", k), nil
	case 3:
		return fmt.Sprintf("DELETE v FROM shop.rows WHERE k = %d AND c = %d", k, c), nil
	case 4:
		return fmt.Sprintf("UPDATE shop.rows SET s = %d WHERE k = %d", v, k), map[int32]rowAt{v: {k, -1}}
	case 5:
		return insert(k, c, v) + " IF NOT EXISTS", nil
	case 6:
		return fmt.Sprintf("UPDATE shop.rows SET v = %d WHERE k = %d AND c = %d IF v > 100", v, k, c), nil
	case 7, 8:
		other, w := (k+1+dice.Int32N(tableKeys-1))%tableKeys, l.value.Add(1)
		return "BEGIN BATCH " + insert(k, c, v) + "; " + insert(other, c, w) + "; APPLY BATCH",
			map[int32]rowAt{v: {k, c}, w: {other, c}}
	case 9, 10:
		return fmt.Sprintf("UPDATE shop.rows SET v = %d WHERE k = %d AND c = %d", v, k, c), map[int32]rowAt{v: {k, c}}
	}
	return insert(k, c, v), map[int32]rowAt{v: {k, c}}
}

// run writes through the nodes in turn until the load ends.
func (l *tableLoad) run(number int) {
	dice := rand.New(rand.NewPCG(uint64(number), 23))
	var conn *rawclient.Conn
	for node := number; ; {
		select {
		case <-l.stop:
			if conn != nil {
				conn.Close()
			}
			return
		default:
		}
		if conn == nil {
			var err error
			node++
			conn, err = rawclient.Dial(l.f.t.Context(), l.f.nodes[node%len(l.f.nodes)].cql(),
				rawclient.Options{Timeout: restTime})
			if err != nil {
				conn = nil
				time.Sleep(20 * time.Millisecond) // the node is down
				continue
			}
		}
		text, wrote := l.statement(dice)
		if _, err := process.Query(conn, dberr.Quorum, text); err != nil {
			if strings.Contains(err.Error(), "Invalid") {
				l.f.t.Errorf("%s: %v", text, err)
			}
			conn.Close() // the outcome is unknown
			conn = nil
			continue
		}
		l.mu.Lock()
		maps.Copy(l.wrote, wrote)
		l.mu.Unlock()
		l.acked.Add(1)
	}
}

// until waits for n acknowledged statements.
func (l *tableLoad) until(n int64) {
	l.f.t.Helper()
	last, since := int64(0), time.Now()
	for l.acked.Load() < n {
		if now := l.acked.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > 10*time.Minute { // allow for a shared machine
			l.f.t.Fatalf("no statement was acknowledged for ten minutes, at %d", last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
