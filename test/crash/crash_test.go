// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package crash repeatedly kills a real process during its work and checks for lost data. All processes use the same
// data.
package crash

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

var rounds = flag.Int("rounds", 3, "number of kills of the process")

const writers = 8

// server is a running process of the binary under test.
type server struct {
	cmd  *exec.Cmd
	addr string
}

var readyLine = regexp.MustCompile(`CQL on ([0-9.:]+)`)

// start runs the binary on dir and waits for its ready line.
func start(t *testing.T, bin, dir string) *server {
	t.Helper()
	cmd := exec.Command(bin, "start", "--data", dir, "--cql", "127.0.0.1:0", "--http", "off", "--rest", "off",
		"--log-level",
		"warn")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	m := readyLine.FindStringSubmatch(line)
	if err != nil || m == nil {
		_ = cmd.Process.Kill()
		t.Fatalf("no ready line, got %q (%v)", line, err)
	}
	return &server{cmd, m[1]}
}

func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // the error only reports that the process was killed
}

func (s *server) dial(t *testing.T) *rawclient.Conn {
	t.Helper()
	c, err := rawclient.Dial(context.Background(), s.addr, rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// acknowledged holds the acknowledged changes of each writer: the last row and the number of counter increments.
type acknowledged struct {
	row     [writers]atomic.Int64
	counter [writers]atomic.Int64
	tried   [writers]atomic.Int64
}

// TestKill checks that a SIGKILL loses no acknowledged write and leaves only complete rows. A counter must contain
// every acknowledged increment exactly once.
func TestKill(t *testing.T) {
	t.Parallel()
	bin, dir := process.Binary(t), filepath.Join(t.TempDir(), "data")
	s := start(t, bin, dir)
	c := s.dial(t)
	for _, q := range []string{
		"CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE crash.rows (w int, i int, a text, b text, PRIMARY KEY (w, i))",
		"CREATE TABLE crash.counts (w int PRIMARY KEY, n counter)",
	} {
		if _, err := c.Query(q); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	var acked acknowledged
	rng := rand.New(rand.NewPCG(uint64(*rounds), 7))
	for round := range *rounds {
		var wg sync.WaitGroup
		for w := range writers {
			conn := s.dial(t)
			wg.Go(func() { write(conn, w, &acked) })
		}
		time.Sleep(time.Duration(100+rng.IntN(500)) * time.Millisecond) // varies the progress of the writers
		s.kill(t)
		wg.Wait()
		s = start(t, bin, dir)
		verify(t, s, &acked)
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
	var rows int64
	for w := range writers {
		rows += acked.row[w].Load()
	}
	if rows == 0 {
		t.Error("nothing was written: the test checks nothing")
	}
	t.Logf("%d rounds, %d rows acknowledged, none lost", *rounds, rows)
	s.kill(t)
}

// write inserts rows and increments counters until the connection breaks.
func write(c *rawclient.Conn, w int, acked *acknowledged) {
	defer c.Close()
	for i := acked.row[w].Load() + 1; ; i++ {
		if _, err := c.Query(fmt.Sprintf("INSERT INTO crash.rows (w, i, a, b) VALUES (%d, %d, 'a%d', 'b%d')", w, i, i,
			i)); err != nil {
			return
		}
		acked.row[w].Store(i)
		if i%4 == 0 {
			acked.tried[w].Add(1)
			if _, err := c.Query(fmt.Sprintf("UPDATE crash.counts SET n = n + 1 WHERE w = %d", w)); err != nil {
				return
			}
			acked.counter[w].Add(1)
		}
	}
}

func verify(t *testing.T, s *server, acked *acknowledged) {
	t.Helper()
	c := s.dial(t)
	defer c.Close()
	for w := range writers {
		want := acked.row[w].Load()
		r, err := c.Query(fmt.Sprintf("SELECT i, a, b FROM crash.rows WHERE w = %d", w))
		if err != nil {
			t.Fatal(err)
		}
		cells := r.Cells
		next := func() []byte {
			n := int32(binary.BigEndian.Uint32(cells))
			v := cells[4 : 4+max(n, 0)]
			cells = cells[4+max(n, 0):]
			return v
		}
		for i := int64(1); i <= int64(r.RowCount); i++ {
			n, a, b := int64(binary.BigEndian.Uint32(next())), string(next()), string(next())
			if n != i || a != fmt.Sprintf("a%d", i) || b != fmt.Sprintf("b%d", i) {
				t.Errorf("writer %d: row %d is (%d, %s, %s)", w, i, n, a, b)
				break
			}
		}
		if int64(r.RowCount) < want {
			t.Errorf("writer %d: got %d rows, %d were acknowledged", w, r.RowCount, want)
		}
		// At most one unacknowledged row per round can exist. From now on, this row counts as acknowledged.
		acked.row[w].Store(int64(r.RowCount))
		verifyCounter(t, c, w, acked)
	}
}

func verifyCounter(t *testing.T, c *rawclient.Conn, w int, acked *acknowledged) {
	t.Helper()
	r, err := c.Query(fmt.Sprintf("SELECT n FROM crash.counts WHERE w = %d", w))
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if r.RowCount == 1 {
		n = int64(binary.BigEndian.Uint64(r.Cells[4:]))
	}
	if low, high := acked.counter[w].Load(), acked.tried[w].Load(); n < low || n > high {
		t.Errorf("writer %d: the counter is %d; %d of %d attempted increments were acknowledged", w, n, low, high)
	}
}
