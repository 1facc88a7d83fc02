// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const (
	// growers is the number of goroutines that fill, read, and empty the table. rowsEvery is the pause between two
	// rows. readEvery is the pause between two reads when no goroutine writes rows.
	growers   = 4
	rowsEvery = 2 * time.Millisecond
	readEvery = 200 * time.Millisecond
	// rowsBefore is the number of rows before the table is filled. It is too small for a split.
	rowsBefore = 1000
	// rowBytes is the size of a row. When the table is emptied, one in keptOf rows stays.
	rowBytes = 1000
	keptOf   = 256
)

// These are the modes of a grower.
const (
	reading int32 = iota // writes rowsBefore rows and then reads them as fast as possible
	filling              // writes rows at a limited rate, and reads some rows
	resting              // reads rows at a low rate
)

// grower fills a table through the Go driver, reads the written rows, and finally deletes most of them.
type grower struct {
	session *gocql.Session
	l       *load
	asked   atomic.Int64
	doing   atomic.Int32
	stop    atomic.Bool
	wg      sync.WaitGroup

	mu      sync.Mutex
	rows    int64          // writes of keys 1 to rows have started
	deleted int64          // deletions of keys 1 to deleted have started, except for rows that stay
	busy    map[int64]bool // rows whose write or deletion is in flight or failed
}

// startGrower starts a grower in mode reading.
func startGrower(l *load, s *gocql.Session) *grower {
	g := &grower{session: s, l: l, busy: map[int64]bool{}}
	for range growers {
		g.wg.Go(g.run)
	}
	return g
}

// payload returns the incompressible value of a row, which the key determines.
func payload(k int64) []byte {
	rng := rand.New(rand.NewPCG(uint64(k), 77))
	out := make([]byte, rowBytes)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

// does changes the mode.
func (g *grower) does(what int32) { g.doing.Store(what) }

// end stops the grower.
func (g *grower) end() {
	g.stop.Store(true)
	g.wg.Wait()
}

func (g *grower) run() {
	write, read := time.NewTicker(growers*rowsEvery), time.NewTicker(growers*readEvery)
	defer write.Stop()
	defer read.Stop()
	for !g.stop.Load() {
		switch g.doing.Load() {
		case reading:
			if g.written() < rowsBefore {
				g.write()
			}
		case filling:
			<-write.C
			g.write()
		case resting:
			<-read.C
		}
		g.read()
	}
}

// written returns the number of rows whose write has started.
func (g *grower) written() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rows
}

// write writes the next row.
func (g *grower) write() {
	g.mu.Lock()
	g.rows++
	k := g.rows
	g.busy[k] = true
	g.mu.Unlock()
	g.change(k, g.session.Query("INSERT INTO load.grown (k, v) VALUES (?, ?)", k, payload(k)))
}

// change executes a write or a deletion of a busy row. The row stays busy if the request fails.
func (g *grower) change(k int64, q *gocql.Query) {
	err := q.Exec()
	g.asked.Add(1)
	if err != nil {
		g.l.unanswered("row %d is not changed: %v", k, err)
		return
	}
	g.mu.Lock()
	delete(g.busy, k)
	g.mu.Unlock()
}

// state returns whether a row exists, if known.
func (g *grower) state(k int64) (there, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return k > g.deleted || k%keptOf == 0, !g.busy[k] && k <= g.rows
}

// read reads and compares a row that is not being changed.
func (g *grower) read() {
	g.mu.Lock()
	k := 1 + rand.Int64N(max(1, g.rows))
	g.mu.Unlock()
	there, known := g.state(k)
	if !known {
		return
	}
	var got []byte
	err := g.session.Query("SELECT v FROM load.grown WHERE k = ?", k).Scan(&got)
	g.asked.Add(1)
	missing := errors.Is(err, gocql.ErrNotFound)
	if err != nil && !missing {
		g.l.unanswered("row %d is not read: %v", k, err)
		return
	}
	if again, known := g.state(k); !known || again != there {
		return
	}
	if missing == there || there && !slices.Equal(got, payload(k)) {
		g.l.fail("row %d: it should be there: %t, and has %d bytes", k, there, len(got))
	}
}

// shrink deletes most rows and waits for the deletions to be complete.
func (g *grower) shrink() {
	var wg sync.WaitGroup
	for range 2 * growers {
		wg.Go(func() {
			for !g.stop.Load() {
				g.mu.Lock()
				if g.deleted == g.rows {
					g.mu.Unlock()
					return
				}
				g.deleted++
				k := g.deleted
				skip := k%keptOf == 0 || g.busy[k]
				if !skip {
					g.busy[k] = true
				}
				g.mu.Unlock()
				if !skip {
					g.change(k, g.session.Query("DELETE FROM load.grown WHERE k = ?", k))
				}
			}
		})
	}
	wg.Wait()
}

// check reads the whole table and compares it with the expected rows.
func (g *grower) check(t testing.TB) {
	t.Helper()
	found := map[int64]bool{}
	rows := g.session.Query("SELECT k, v FROM load.grown").PageSize(500).Iter()
	var k int64
	var v []byte
	for rows.Scan(&k, &v) {
		if k > appKeys {
			continue // other programs write and check these rows
		}
		there, known := g.state(k)
		if found[k] || known && !there || !slices.Equal(v, payload(k)) {
			t.Errorf("row %d: seen before: %t, should be there: %t, %d bytes", k, found[k], there, len(v))
		}
		found[k] = true
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
	lost := 0
	for k := int64(1); k <= g.rows; k++ {
		if there, known := g.state(k); there && known && !found[k] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d rows are lost", lost)
	}
	t.Logf("%d rows were written, %d exist, %d changes have an unknown outcome", g.rows, len(found), len(g.busy))
}
