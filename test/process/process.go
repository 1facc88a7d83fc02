// SPDX-License-Identifier: Apache-2.0

// Package process runs the real binary as a process of its own, for tests that kill it, fill its disk or abuse its
// port.
//
// The binary is built once for all packages, or taken from the environment variable ILION_BIN. A package that uses it
// calls Main in its TestMain.
package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/poll"
)

var (
	built     string
	buildOnce sync.Once
	buildErr  error

	secretPath string
	secretOnce sync.Once
	secretErr  error
)

// Main runs the tests and removes what they share.
func Main(m *testing.M) {
	poll.AtOnce(2)
	code := m.Run()
	if secretPath != "" {
		_ = os.RemoveAll(filepath.Dir(secretPath))
	}
	os.Exit(code)
}

// Binary returns the path of the binary under test.
func Binary(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("ILION_BIN"); bin != "" {
		return bin
	}
	buildOnce.Do(func() { built, buildErr = build() })
	if buildErr != nil {
		t.Fatal(buildErr)
	}
	return built
}

// build returns the path of the binary in the cache of the Go command, which keeps what go run has linked: linking it
// takes as long as many a test. The run that links it has it in a directory of its own, which is gone with that run.
func build() (path string, err error) {
	for range 2 {
		var complaint bytes.Buffer
		cmd := exec.Command("go", "run", "-exec", "echo", "github.com/ilion-db/ilion/cmd/ilion")
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, complaint.Bytes())
		}
		path = strings.TrimSpace(string(out))
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("build: the Go command does not keep %s", path)
}

// secretFile is the join secret of all clusters that tests start: each process is given it.
func secretFile(t testing.TB) string {
	t.Helper()
	secretOnce.Do(func() {
		var dir string
		if dir, secretErr = os.MkdirTemp("", "ilion-secret"); secretErr == nil {
			secretPath = filepath.Join(dir, "join-secret")
			secretErr = os.WriteFile(secretPath, secret, 0o600)
		}
	})
	if secretErr != nil {
		t.Fatal(secretErr)
	}
	return secretPath
}

var secret = []byte(strings.Repeat("no secret ", 4))

// Secret is the join secret of the clusters that tests start.
func Secret() []byte { return bytes.TrimSpace(secret) }

// Command is the binary under test with arguments; it has the join secret in its environment, and, unless it is told
// otherwise, serves nobody over REST: there is one default address on the machine.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = append(os.Environ(), "ILION_START_JOIN_SECRET_FILE="+secretFile(t), "ILION_START_REST=off")
	return cmd
}

// Server is a running process.
type Server struct {
	Cmd *exec.Cmd
	// CQL and HTTP are its addresses.
	CQL, HTTP string
	stderr    *Output
	ended     chan struct{}
	err       error
}

// Output is what a process has written so far. The zero value is ready for use.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *Output) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all of it.
func (b *Output) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var readyLine = regexp.MustCompile(`CQL on ([0-9.:]+), HTTP on ([0-9.:]+)`)

// Start runs the binary on a data directory, with more arguments, and waits for its ready line. It is killed when the
// test ends.
func Start(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s, err := TryStart(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TryStart is Start for processes that may refuse to start: its error is what they wrote to stderr. Wait then has the
// exit code.
func TryStart(t testing.TB, dir string, args ...string) (*Server, error) {
	t.Helper()
	args = append([]string{"start", "--data", dir, "--cql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level",
		"warn"}, args...)
	s := &Server{Cmd: Command(t, args...), stderr: new(Output), ended: make(chan struct{})}
	s.Cmd.Stderr = s.stderr
	stdout, err := s.Cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.Cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Kill() })
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		s.err = s.Cmd.Wait()
		close(s.ended)
	}()
	m := readyLine.FindStringSubmatch(line)
	if m == nil {
		<-s.ended
		//nolint:errorlint // readErr may be nil
		return s, fmt.Errorf("no ready line but %q (%v); exit code %d; stderr: %s", line, readErr,
			s.Cmd.ProcessState.ExitCode(), s.Stderr())
	}
	s.CQL, s.HTTP = m[1], m[2]
	return s, nil
}

// Stderr is what the process has written there so far.
func (s *Server) Stderr() string { return s.stderr.String() }

// Kill ends the process as kill -9 does and waits for its end.
func (s *Server) Kill() {
	_ = s.Cmd.Process.Kill() // it may have ended
	<-s.ended
}

// Stop sends SIGTERM and waits for the end. It returns how long that took and the exit code.
func (s *Server) Stop(t testing.TB) (time.Duration, int) {
	t.Helper()
	began := time.Now()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Wait(t, time.Minute)
	return time.Since(began), s.Cmd.ProcessState.ExitCode()
}

// Wait waits for the end of the process and returns how long that took.
func (s *Server) Wait(t testing.TB, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-s.ended:
	case <-time.After(limit):
		t.Fatalf("the process has not ended after %s; stderr: %s", limit, s.Stderr())
	}
	return time.Since(began)
}

// Running reports whether the process has not ended.
func (s *Server) Running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// RSS is the resident memory of the process in bytes.
func (s *Server) RSS(t testing.TB) int64 {
	t.Helper()
	return s.memory(t, "VmRSS:")
}

// PeakRSS is the most that RSS has been.
func (s *Server) PeakRSS(t testing.TB) int64 {
	t.Helper()
	return s.memory(t, "VmHWM:")
}

// ResetPeakRSS makes PeakRSS begin anew with the present RSS.
func (s *Server) ResetPeakRSS(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// clockTicks is how many units a second the times in /proc/PID/stat have on every Linux that Go supports.
const clockTicks = 100

// CPU is the processor time that the process has used, of all its threads.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(b, []byte(") ")) // the name of the program may have anything in it
	f := strings.Fields(string(after))
	if len(f) < 13 {
		t.Fatalf("/proc/PID/stat has %d fields: %s", len(f), b)
	}
	var ticks int64
	for _, field := range f[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks
}

func (s *Server) memory(t testing.TB, field string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in /proc", field)
	return 0
}

// Dial connects a client.
func (s *Server) Dial(t testing.TB) *rawclient.Conn {
	t.Helper()
	c, err := rawclient.Dial(context.Background(), s.CQL, rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Do runs statements, which must succeed.
func Do(t testing.TB, c *rawclient.Conn, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := c.Query(q); err != nil {
			t.Fatal(err)
		}
	}
}

// Query runs a statement at a consistency level.
func Query(c *rawclient.Conn, level dberr.Consistency, text string) (*cqlwire.Result, error) {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.PageSize = level, cqlwire.NoPaging
	_, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	if err != nil {
		return nil, err
	}
	return cqlwire.DecodeResult(body, cqlwire.V4)
}

// Status is what a node shows of itself and its cluster.
func Status(t testing.TB, s *Server) *admin.Status {
	t.Helper()
	r, err := http.Get("http://" + s.HTTP + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	status := new(admin.Status)
	if err := json.NewDecoder(r.Body).Decode(status); err != nil {
		t.Fatal(err)
	}
	return status
}
