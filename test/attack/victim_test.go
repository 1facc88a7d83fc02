// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

var long = flag.Bool("long", false, "attack for longer")

const (
	// budget is the memory budget of the attacked process in bytes. memoryMax is the maximum resident memory.
	budget    = 512 << 20
	memoryMax = budget * 5 / 4
	// neighbors is the number of clients that send normal requests during an attack.
	neighbors = 4
	// latencyTarget is the target for the 99th percentile of the neighbors' latency on an idle machine.
	latencyTarget = 100 * time.Millisecond
)

func TestMain(m *testing.M) { process.Main(m) }

// longer is the factor by which -long multiplies the work of an attack.
const longer = 20

// rounds returns the amount of work of an attack: short, or short times longer with -long.
func rounds(short int) int {
	if *long {
		return longer * short
	}
	return short
}

// victim is an attacked process. victim includes the clients that observe the process.
type victim struct {
	t *testing.T
	*process.Server
	data    string            // data directory
	client  rawclient.Options // options of clients with access
	stop    chan struct{}
	leaving sync.Once
	watch   sync.WaitGroup

	mu      sync.Mutex
	times   []time.Duration  // latencies of the neighbors' successful requests
	refused int              // rejected requests of neighbors
	wrote   [neighbors][]int // acknowledged rows of neighbors
}

// startVictim starts a process with a keyspace named ks. The lines of configuration are added to the memory budget.
func startVictim(t *testing.T, configuration ...string) *victim {
	t.Helper()
	return setup{configuration: configuration}.start(t)
}

// setup holds the arguments and the configuration of a process, and the TLS settings of its clients.
type setup struct {
	args, configuration []string
	tls                 *tls.Config
}

func (s setup) start(t *testing.T) *victim {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	lines := append([]string{fmt.Sprintf("memory: {budget: %d}", budget)}, s.configuration...)
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := &victim{t: t, data: filepath.Join(dir, "data"), stop: make(chan struct{}),
		client: rawclient.Options{User: boss, Password: password, TLS: s.tls, Timeout: time.Minute}}
	v.Server = process.Start(t, v.data, append([]string{"--config", config}, s.args...)...)
	t.Cleanup(v.leave)
	t.Cleanup(func() {
		if log := v.Stderr(); t.Failed() {
			t.Logf("the end of its log: %s", log[max(0, len(log)-4096):])
		}
	})
	v.do(
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.neighbours (k int, n int, v text, PRIMARY KEY (k, n))",
	)
	return v
}

// dial connects a client with access.
func (v *victim) dial() *rawclient.Conn {
	v.t.Helper()
	c, err := rawclient.Dial(context.Background(), v.CQL, v.client)
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// answered returns the number of successful requests of neighbors.
func (v *victim) answered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.times)
}

// acknowledged returns the rows of neighbors that have been acknowledged so far.
func (v *victim) acknowledged() (wrote [neighbors][]int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, rows := range v.wrote {
		wrote[i] = slices.Clone(rows)
	}
	return wrote
}

func (v *victim) do(statements ...string) {
	v.t.Helper()
	c := v.dial()
	defer c.Close()
	process.Do(v.t, c, statements...)
}

// fill writes large rows to a new table ks.big. A page of the table has the maximum size.
func (v *victim) fill(rows, size int) {
	v.t.Helper()
	v.do("CREATE TABLE ks.big (k int, n int, v blob, PRIMARY KEY (k, n))")
	c := v.dial()
	defer c.Close()
	p, err := c.Prepare("INSERT INTO ks.big (k, n, v) VALUES (?, ?, ?)")
	if err != nil {
		v.t.Fatal(err)
	}
	e := cqlwire.Execute{ID: p.ID}
	e.Consistency = dberr.One
	for i := range rows {
		e.Values = [][]byte{binary.BigEndian.AppendUint32(nil, uint32(i%8)),
			binary.BigEndian.AppendUint32(nil, uint32(i)),
			bytes.Repeat([]byte{byte(i)}, size)}
		if _, _, err := c.Call(cqlwire.OpExecute, e.Append(nil, cqlwire.V4)); err != nil {
			v.t.Fatal(err)
		}
	}
}

// until waits until ok returns true or the process has ended.
func (v *victim) until(what string, ok func() bool) {
	v.t.Helper()
	eventually.True(v.t, what, func() bool {
		if !v.Running() {
			v.t.Fatalf("%s: the process has ended: %s", what, v.Stderr())
		}
		return ok()
	})
}

// metric reads one of the process's metrics.
func (v *victim) metric(name string) float64 {
	v.t.Helper()
	r, err := http.Get("http://" + v.HTTP + "/metrics")
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "ilion_"+name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				v.t.Fatal(err)
			}
			return value
		}
	}
	v.t.Fatalf("no metric %s", name)
	return 0
}

// observe starts the neighbors and the observation.
func (v *victim) observe() {
	for i := range neighbors {
		v.watch.Go(func() { v.live(i) })
	}
}

// leave ends the observation.
func (v *victim) leave() {
	v.leaving.Do(func() { close(v.stop) })
	v.watch.Wait()
}

// live writes rows and reads each of them back. A rejection is not a wrong response, but the outcome of a rejected
// write is unknown.
func (v *victim) live(me int) {
	c, err := rawclient.Dial(context.Background(), v.CQL, v.client)
	if err != nil {
		v.t.Errorf("neighbour %d: %v", me, err)
		return
	}
	defer c.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-v.stop:
			return
		case <-tick.C:
		}
		want := fmt.Sprint(n)
		r, err := v.ask(me, c, "INSERT INTO ks.neighbours (k, n, v) VALUES (%d, %d, '"+want+"')", n)
		if err != nil {
			v.t.Error(err)
			return
		}
		if r == nil {
			continue
		}
		v.mu.Lock()
		v.wrote[me] = append(v.wrote[me], n)
		v.mu.Unlock()
		r, err = v.ask(me, c, "SELECT v FROM ks.neighbours WHERE k = %d AND n = %d", n)
		if err != nil {
			v.t.Error(err)
			return
		}
		if r != nil && cell(r) != want {
			v.t.Errorf("neighbor %d: row %d is %q in %d rows", me, n, cell(r), r.RowCount)
		}
	}
}

// cell returns the value of the only cell of a result.
func cell(r *cqlwire.Result) string {
	if r.RowCount != 1 || len(r.Cells) < 4 {
		return "no row"
	}
	return string(r.Cells[4:])
}

// ask runs a neighbor's statement for its row n. ask returns no result if the statement was rejected. It returns an
// error if the request received no response.
func (v *victim) ask(me int, c *rawclient.Conn, text string, n int) (*cqlwire.Result, error) {
	began := time.Now()
	r, err := c.Query(fmt.Sprintf(text, me, n))
	took := time.Since(began)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.times = append(v.times, took)
		return r, nil
	}
	if v.refused++; v.refused <= 3 {
		v.t.Logf("neighbour %d after %s: %v", me, took, err)
	}
	if e := (*cqlwire.Error)(nil); !errors.As(err, &e) {
		return nil, fmt.Errorf("neighbor %d lost its connection: %w", me, err)
	}
	return nil, nil
}

// endure ends the observation and checks the state of the process.
func (v *victim) endure() {
	v.t.Helper()
	// An attack can end before the first neighbor has sent a request.
	eventually.True(v.t, "a response to a neighbor", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.times) > 0 || v.t.Failed() || !v.Running()
	})
	peak := v.PeakRSS(v.t)
	v.leave()
	if !v.Running() {
		v.t.Fatalf("the process has ended: %s", v.Stderr())
	}
	slices.Sort(v.times)
	n := len(v.times)
	if n == 0 {
		v.t.Fatal("the neighbors got no response")
	}
	p99 := v.times[n*99/100]
	v.t.Logf("peak memory %d MiB; neighbors: %d responses, %d rejections, p50 %s, p99 %s, max %s", peak>>20,
		n, v.refused, v.times[n/2], p99, v.times[n-1])
	if peak > memoryMax {
		v.t.Errorf("the process used %d MiB, limit %d MiB", peak>>20, int64(memoryMax)>>20)
	}
	if p99 > latencyTarget {
		v.t.Logf("the neighbors' p99 latency exceeds %s: is the machine idle?", latencyTarget)
	}
	v.lostNothing()
	for _, bad := range []string{"panic", "goroutine ", "fatal error"} {
		if strings.Contains(v.Stderr(), bad) {
			v.t.Errorf("%q in the log: %s", bad, v.Stderr())
		}
	}
}

// lostNothing checks that all acknowledged rows exist.
func (v *victim) lostNothing() {
	v.t.Helper()
	c := v.dial()
	defer c.Close()
	for me := range neighbors {
		r, err := process.Query(c, dberr.One, fmt.Sprintf("SELECT n FROM ks.neighbours WHERE k = %d", me))
		if err != nil {
			v.t.Fatal(err)
		}
		have := map[int]bool{}
		for cells := r.Cells; len(cells) >= 8; cells = cells[8:] {
			have[int(binary.BigEndian.Uint32(cells[4:]))] = true
		}
		for _, n := range v.wrote[me] {
			if !have[n] {
				v.t.Errorf("neighbor %d: acknowledged row %d is lost", me, n)
			}
		}
	}
}
