// SPDX-License-Identifier: Apache-2.0

//go:build integration

package rest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/fakeclock"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestPermissions checks that sessions of @azure/cosmos and azure-cosmos with users, permissions, resource tokens, and
// client encryption keys have the expected results. Each session runs against one node and against a cluster of four
// nodes, of which one creates the permissions and another receives the tokens.
func TestPermissions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sessions := map[string]struct {
		program string
		install [][]string
		env     string
	}{
		"JavaScript": {"node", [][]string{{"npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir,
			javaScriptSDK}}, "NODE_PATH=" + filepath.Join(dir, "node_modules")},
		"Python": {filepath.Join(dir, "bin", "python"), [][]string{{"python3", "-m", "venv", dir},
			{filepath.Join(dir, "bin", "pip"), "install", "-q", pythonSDK}}, "PYTHONUNBUFFERED=1"},
	}
	var ahead atomic.Int64 // of the clocks of the nodes
	set := func(o *options.Options) {
		o.REST = options.REST{Address: "127.0.0.1:0", PrimaryKey: key}
		o.Testing.Clock = fakeclock.Func(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	}
	var alone options.Options
	set(&alone)
	one := endpoint(testnode.One(t, alone))
	four := testnode.Start(t, testnode.Options{Change: func(_ int, o *options.Options) { set(o) }})
	for name, s := range sessions {
		file := "permissions." + map[string]string{"JavaScript": "js", "Python": "py"}[name]
		t.Run(name, func(t *testing.T) {
			for _, command := range s.install {
				install(t, dir, command[0], command[1:]...)
			}
			for _, at := range [][2]string{{one, one}, {"http://" + four.REST(1), "http://" + four.REST(2)}} {
				expire := func() { ahead.Add(int64(10 * time.Second)) }
				converse(t, expire, []string{s.env}, s.program, filepath.Join(here(t), file), at[0], key, at[1])
			}
		})
	}
}

// converse runs a session, which must succeed. It calls answer before it answers a line of the session.
func converse(t *testing.T, answer func(), env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.WaitDelay = append(os.Environ(), env...), time.Second
	var complaints strings.Builder
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		answer()
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, &complaints)
	}
}
