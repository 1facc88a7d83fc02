// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/test/eventually"
)

// Launch runs the binary with arguments without waiting. The process is killed when the test ends.
func Launch(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{Cmd: Command(t, args...), stderr: new(Output), ended: make(chan struct{})}
	s.Cmd.Stderr, s.Cmd.Stdout = s.stderr, s.stderr
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.Cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() { s.Kill() })
	return s
}

// Says waits until the process has written the given text to stderr.
func (s *Server) Says(t testing.TB, text string) {
	t.Helper()
	eventually.None(t, "it says "+text, eventually.Limit, func() string {
		running := s.Running()
		switch {
		case strings.Contains(s.Stderr(), text):
			return ""
		case !running:
			t.Fatalf("the process ended without the output %q; stderr: %s", text, s.Stderr())
		}
		return "so far: " + s.Stderr()
	})
}

// Refuses waits for the end of the process. The exit code must be code, and the last line of the output must contain
// all texts.
func (s *Server) Refuses(t testing.TB, code int, texts ...string) {
	t.Helper()
	s.Wait(t, eventually.Limit)
	lines := strings.Split(strings.TrimSpace(s.Stderr()), "\n")
	last := lines[len(lines)-1]
	if got := s.Cmd.ProcessState.ExitCode(); got != code || !strings.HasPrefix(last, "ilion: ") {
		t.Errorf("exit code %d, want %d; stderr: %s", got, code, s.Stderr())
	}
	for _, text := range texts {
		if !strings.Contains(last, text) {
			t.Errorf("%q is not in %q", text, last)
		}
	}
	if strings.Contains(s.Stderr(), "goroutine ") {
		t.Errorf("a stack trace: %s", s.Stderr())
	}
}

// Owner returns a client for the node that runs on a data directory. The client has the rights of the directory's
// owner. The host in a request's URL is ignored.
func Owner(dir string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, node.AdminSocket))
		}}}
}

// Order sends a request to change the cluster to the node that runs on a data directory, as the owner of the directory.
// The request must succeed.
func Order(t testing.TB, dir, path string) {
	t.Helper()
	if err := TryOrder(dir, path); err != nil {
		t.Fatal(err)
	}
}

// TryOrder works like Order for a request that may be rejected. The error contains the reason.
func TryOrder(dir, path string) error {
	r, err := Owner(dir).Post("http://localhost"+path, "", nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, body)
	}
	return nil
}

// CopyDir copies a data directory that no process changes, without its sockets. See Server.CopyRunning.
func CopyDir(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, below), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
