// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ilion-db/ilion/test/eventually"
)

// CopyRunning copies the data directory of a running process. The process is paused during the copy. Otherwise, the
// process would delete files, and the copy would not be a consistent state.
func (s *Server) CopyRunning(t testing.TB, from, to string) {
	t.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "every thread is stopped", s.stopped)
	CopyDir(t, from, to)
	if err := s.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// stopped reports whether every thread has handled SIGSTOP. Threads on other processors still run briefly after the
// signal has been sent.
func (s *Server) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // skip a thread that has ended
		}
		if err != nil || !bytes.Contains(b, []byte("\nState:\tT")) {
			return false
		}
	}
	return true
}
