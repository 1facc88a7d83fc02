// SPDX-License-Identifier: Apache-2.0

//go:build integration && (linux || darwin)

package shell_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/shell"
)

// These environment variables make the test binary run as a shell.
const (
	typedAt     = "ILION_TEST_SHELL"
	historyFile = "ILION_TEST_HISTORY"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(typedAt); addr != "" {
		if err := beShell(addr); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func beShell(addr string) error {
	s, err := shell.New(context.Background(), shell.Options{Addr: addr, Consistency: dberr.One, Out: os.Stdout,
		Err: os.Stderr})
	if err != nil {
		return err
	}
	defer s.Close() // no request is in flight
	t := shell.NewTerminal(os.Getenv(historyFile), s.Complete)
	defer t.Close()
	return s.Interact(context.Background(), t)
}

// TestTerminal checks the shell at a terminal. Words must be completed, Ctrl-C must drop a line, and Up must restore a
// line. Up must also restore lines from an earlier session. Passwords must not be kept in the history. Ctrl-D must end
// the shell.
func TestTerminal(t *testing.T) {
	addr := server(t)
	history := filepath.Join(t.TempDir(), "state", "history")
	first := startTyping(t, addr, history)
	first.await("ilion> ")
	first.types("SELECT cluster_n\t")
	first.await("SELECT cluster_n") // the statement names no table, so no column can be completed
	first.types("\x03")
	first.await("ilion> ")
	first.types("use syst\t") // complete the common prefix of system, system_auth, ...
	first.await("use system")
	first.types(";\r")
	first.await("ilion:system> ")
	first.types("sel\tkey fr\tlocal;\r")
	first.await("(1 rows)")
	first.types("LIST ROLES;\r")
	first.await("ilion:system> ")
	first.types("ALTER ROLE x WITH PASSWORD = 'secret';\r")
	first.await("ilion:system> ")
	first.types("\x04")
	first.ends()

	kept, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(kept); !strings.Contains(s, "select key from local;\n") || strings.Contains(s, "secret") {
		t.Errorf("the history has %q", s)
	}
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history: %v, %v", info.Mode(), err)
	}

	second := startTyping(t, addr, history)
	second.await("ilion> ")
	second.types("use system;\r")
	second.await("ilion:system> ")
	second.types("\x1b[A\x1b[A\x1b[A\r") // the lines use, LIST, and select
	second.await("(1 rows)")
	second.types("exit\r")
	second.ends()
}

// typing is a shell at a terminal.
type typing struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	read chan string // receives the output and is closed at the end of the output
	seen string      // output that await has not consumed yet
}

func startTyping(t *testing.T, addr, history string) *typing {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "TERM=xterm", typedAt+"="+addr, historyFile+"="+history)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	p := &typing{t: t, tty: tty, cmd: cmd, read: make(chan string, 100)}
	go func() {
		defer close(p.read)
		for buf := make([]byte, 4096); ; {
			n, err := tty.Read(buf)
			p.read <- string(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *typing) types(keys string) {
	p.t.Helper()
	if _, err := p.tty.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// await reads until the output contains a text. After a minute, await fails and reports the output.
func (p *typing) await(text string) {
	p.t.Helper()
	for giveUp := time.After(time.Minute); ; {
		if _, rest, ok := strings.Cut(p.seen, text); ok {
			p.seen = rest
			return
		}
		select {
		case more, ok := <-p.read:
			if !ok {
				p.t.Fatalf("%q is not printed; the output is %q", text, p.seen)
			}
			p.seen += more
		case <-giveUp:
			p.t.Fatalf("%q is not printed in a minute; the output is %q", text, p.seen)
		}
	}
}

// ends checks that the shell ends without an error.
func (p *typing) ends() {
	p.t.Helper()
	for range p.read {
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the shell ended with %v", err)
	}
}
