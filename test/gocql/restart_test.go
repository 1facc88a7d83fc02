// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

var restarts = flag.Int("gocql.restarts", 3, "number of restarts of TestRestartsUnderLoad")

// TestRestartsUnderLoad checks that nodes can be stopped in an orderly way and restarted under load. The load consists
// of reads, writes, conditions, and counters from a driver with its default policies. The driver never retries.
//
// CQL has no message that announces the end of a connection. A request is lost if the client sends it after the server
// has closed the connection. On a busy machine, the client detects the end of the connection late. Some requests may
// therefore fail when their connection ends. The test fails if a restart causes more failed requests than the load has
// workers, or if a node returns an error.
func TestRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	change := apart(t)
	c := testnode.Start(t, testnode.Options{Dir: t.TempDir(), Change: func(i int, o *options.Options) { change(i, o) }})
	cluster := gocql.NewCluster(c.Addrs()...)
	cluster.ReconnectInterval = time.Second // no request uses the control connection
	s, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	exec(t, s, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	exec(t, s, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	exec(t, s, "CREATE TABLE ks.n (k int PRIMARY KEY, n counter)")
	l := &restartLoad{t: t, s: s}
	for worker := range restartWorkers {
		l.wg.Go(func() { l.run(worker) })
	}
	began := time.Now()
	for i := range *restarts {
		l.phase.Store("stop")
		c.Stop(i % c.Len())
		l.phase.Store("start")
		c.Restart(i % c.Len())
		c.Settle()
		l.phase.Store("up")
		l.await(2000)
	}
	l.done.Store(true)
	l.wg.Wait()
	t.Logf("%d restarts in %v, %d requests, %d failed with their connections", *restarts,
		time.Since(began).Round(time.Second), l.requests.Load(), l.lost.Load())
	if l.lost.Load() > int64(restartWorkers**restarts) {
		t.Errorf("%d requests failed in %d restarts", l.lost.Load(), *restarts)
	}
}

// restartWorkers is the number of concurrent requests.
const restartWorkers = 8

// restartLoad runs the requests while nodes are restarted.
type restartLoad struct {
	t              *testing.T
	s              *gocql.Session
	wg             sync.WaitGroup
	done           atomic.Bool
	requests, lost atomic.Int64
	phase          atomic.Value // phase of the restart
}

// await returns after the given number of further requests.
func (l *restartLoad) await(more int64) {
	want := l.requests.Load() + more
	eventually.True(l.t, "the load", func() bool { return l.requests.Load() >= want || l.t.Failed() })
}

// run executes a write, a read, a conditional write, and a counter update in turn.
func (l *restartLoad) run(worker int) {
	for i := 0; !l.done.Load(); i++ {
		k := 1000*worker + i/4%100
		var err error
		switch i % 4 {
		case 0:
			err = l.s.Query("INSERT INTO ks.t (k, v) VALUES (?, ?)", k, i).Exec()
		case 1:
			var v int
			if err = l.s.Query("SELECT v FROM ks.t WHERE k = ?", k).Scan(&v); errors.Is(err, gocql.ErrNotFound) {
				err = nil
			}
		case 2:
			_, err = l.s.Query("UPDATE ks.t SET v = ? WHERE k = ? IF v = ?", i, k, i-2).
				MapScanCAS(map[string]any{})
		case 3:
			err = l.s.Query("UPDATE ks.n SET n = n + 1 WHERE k = ?", k).Exec()
		}
		l.requests.Add(1)
		if refusal := gocql.RequestError(nil); errors.As(err, &refusal) {
			l.t.Errorf("worker %d: %v", worker, err)
		} else if err != nil {
			l.lost.Add(1)
			l.t.Log(l.phase.Load(), describeLoss(i%4, err))
		}
	}
}

func describeLoss(kind int, err error) string {
	what := [...]string{"write", "read", "condition", "counter"}[kind]
	if errors.Is(err, io.EOF) {
		return what + ": the connection ended"
	}
	return fmt.Sprintf("%s: %v", what, err)
}
