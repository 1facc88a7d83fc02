// SPDX-License-Identifier: Apache-2.0

// Package process runs the real binary as a separate process. Tests can kill the process, fill its disk, or attack its
// port.
//
// The package builds the binary once for all packages, or takes it from the environment variable ILION_BIN. A package
// that uses this package must call Main in its TestMain.
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
	"github.com/ilion-db/ilion/test/eventually"
)

var (
	built     string
	buildOnce sync.Once
	buildErr  error

	secretPath string
	secretOnce sync.Once
	secretErr  error
)

// Main runs the tests and removes shared files.
func Main(m *testing.M) {
	eventually.AtOnce(2)
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

// build returns the path of the binary in the cache of the Go command. The cache keeps binaries that go run has
// linked, so most builds need no link step. A binary that is not yet in the cache is linked to a temporary directory,
// which is removed after the run.
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
	return "", fmt.Errorf("build: the Go command did not cache %s", path)
}

// secretFile returns the file with the join secret of all clusters that tests start. Each process receives this file.
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

// Secret returns the join secret of the clusters that tests start.
func Secret() []byte { return bytes.TrimSpace(secret) }

// Command returns a command of the binary under test with arguments. Its environment contains the join secret. By
// default, the REST API is disabled, because only one process per machine can use its default address.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = append(os.Environ(), "ILION_START_JOIN_SECRET_FILE="+secretFile(t), "ILION_START_REST=off")
	return cmd
}

// OlderEnvironment returns the environment variables with which Command configures builds of earlier feature levels.
func OlderEnvironment(t testing.TB) []string {
	t.Helper()
	return []string{"ILION_JOIN_SECRET_FILE=" + secretFile(t), "ILION_REST=off"}
}

// Server is a running process.
type Server struct {
	Cmd *exec.Cmd
	// CQL and HTTP are the addresses of the process.
	CQL, HTTP string
	stderr    *Output
	ended     chan struct{}
	err       error
}

// Output collects the output of a process. The zero value is ready for use.
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

// String returns the whole output.
func (b *Output) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var readyLine = regexp.MustCompile(`CQL on ([0-9.:]+), HTTP on ([0-9.:]+)`)

// Start runs the binary on a data directory with additional arguments and waits for its ready line. The process is
// killed when the test ends.
func Start(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s, err := TryStart(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TryStart works like Start for processes that may fail to start. The error contains the output on stderr. Call Wait
// to get the exit code.
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
		return s, fmt.Errorf("no ready line, got %q (%v); exit code %d; stderr: %s", line, readErr,
			s.Cmd.ProcessState.ExitCode(), s.Stderr())
	}
	s.CQL, s.HTTP = m[1], m[2]
	return s, nil
}

// Stderr returns the output on stderr so far.
func (s *Server) Stderr() string { return s.stderr.String() }

// Kill kills the process with SIGKILL and waits for its end.
func (s *Server) Kill() {
	_ = s.Cmd.Process.Kill() // the process may have ended
	<-s.ended
}

// Stop sends SIGTERM and waits for the end. Stop returns the duration of the shutdown and the exit code.
func (s *Server) Stop(t testing.TB) (time.Duration, int) {
	t.Helper()
	began := time.Now()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Wait(t, time.Minute)
	return time.Since(began), s.Cmd.ProcessState.ExitCode()
}

// Wait waits for the end of the process. Wait returns the elapsed time and the exit code.
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

// RSS returns the resident memory of the process in bytes.
func (s *Server) RSS(t testing.TB) int64 {
	t.Helper()
	return s.memory(t, "VmRSS:")
}

// PeakRSS returns the maximum resident memory of the process in bytes.
func (s *Server) PeakRSS(t testing.TB) int64 {
	t.Helper()
	return s.memory(t, "VmHWM:")
}

// ResetPeakRSS resets the maximum resident memory to the current value.
func (s *Server) ResetPeakRSS(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// clockTicks is the number of clock ticks per second in /proc/PID/stat. The value is the same on every Linux system
// that Go supports.
const clockTicks = 100

// CPU returns the CPU time of all threads of the process.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(b, []byte(") ")) // skip the program name, which may contain any character
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

// Dial connects a client to the process.
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

// Status returns the cluster status that a node reports.
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
