// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// nodeProcess is a node that runs in a separate process.
type nodeProcess struct {
	*exec.Cmd
	addr   string
	ready  time.Duration
	stderr bytes.Buffer
}

var readyLine = regexp.MustCompile(`^Ilion is ready: CQL on ([0-9.:]+), data in `)

// startProcess starts a node with the data directory dir. testscript.Main adds this test binary to the PATH under the
// name ilion.
func startProcess(t *testing.T, dir string) *nodeProcess {
	t.Helper()
	p := &nodeProcess{Cmd: exec.Command("ilion", "start", "--data", dir, "--cql", "127.0.0.1:0", "--http", "off",
		"--rest", "off")}
	p.Stderr = &p.stderr
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	p.ready = time.Since(began)
	m := readyLine.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no ready line but %q (%v)", line, err)
	}
	p.addr = m[1]
	return p
}

// end waits for the process and returns its wait status.
func (p *nodeProcess) end(t *testing.T) syscall.WaitStatus {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Wait() // ProcessState contains the result
	}()
	select {
	case <-done:
		return p.ProcessState.Sys().(syscall.WaitStatus)
	case <-time.After(eventually.Limit):
		t.Fatal("the process does not end")
		return 0
	}
}

// stall sends requests but does not read the responses. Therefore, the node must wait for these requests when it stops.
func stall(t *testing.T, addr string) *rawclient.Conn {
	t.Helper()
	c, err := rawclient.Dial(t.Context(), addr, rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
		"INSERT INTO ks.t (k, v) VALUES (1, '" + strings.Repeat("x", 2<<20) + "')",
	} {
		if _, err := c.Query(text); err != nil {
			t.Fatal(err)
		}
	}
	q := cqlwire.Query{Text: []byte("SELECT * FROM ks.t")}
	q.Consistency = dberr.One
	var frames []byte
	for i := range int16(50) {
		frames = rawclient.AppendFrame(frames, i, cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	}
	if _, err := c.Write(frames); err != nil {
		t.Fatal(err)
	}
	// After the first byte of a response, the requests have arrived.
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSignals checks that SIGTERM and SIGINT stop a node cleanly. The exit code must be 0, and the lock must be
// removed. A second signal must immediately end a node that is waiting for in-flight requests.
func TestSignals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startProcess(t, dir)
		t.Logf("ready after %v", p.ready)
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if s := p.end(t); !s.Exited() || s.ExitStatus() != 0 || strings.Contains(p.stderr.String(), "ilion:") {
			t.Errorf("after %v: exited %v with %d, said %s", sig, s.Exited(), s.ExitStatus(), p.stderr.String())
		}
	}
	p := startProcess(t, dir)
	c := stall(t, p.addr)
	defer c.Close()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// If the node does not accept connections, the first signal has arrived.
	eventually.True(t, "it stops to listen", func() bool {
		other, err := rawclient.Dial(t.Context(), p.addr, rawclient.Options{Timeout: time.Second})
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	if err := syscall.Kill(p.Process.Pid, 0); err != nil {
		t.Fatalf("the node did not wait for the requests in flight: %v", err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// A node that waits for the requests ends with an exit code instead of a signal.
	if s := p.end(t); !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("after the second signal: signaled %v, exit code %d", s.Signaled(), s.ExitStatus())
	}
	p = startProcess(t, dir)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if s := p.end(t); s.ExitStatus() != 0 {
		t.Errorf("after the forced stop, the next process ends with %d: %s", s.ExitStatus(), p.stderr.String())
	}
}
