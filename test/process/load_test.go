// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// TestKilledLoad checks that the same command resumes a load that was killed several times. At the end, each row of
// the file must exist, and the error file must contain each invalid line once.
func TestKilledLoad(t *testing.T) {
	t.Parallel()
	const rows, every = 20_000, 997
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	file, checkpoint, rejected := in("rows.csv"), in("load"), in("errors")
	var text strings.Builder
	text.WriteString("k,v\n")
	value, bad := strings.Repeat("x", 200), 0
	for k := range rows {
		if k%every == 0 {
			fmt.Fprintf(&text, "no number,%d\n", k)
			bad++
			continue
		}
		fmt.Fprintf(&text, "%d,%s\n", k, value)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, in("data"))
	client := s.Dial(t)
	t.Cleanup(func() { client.Close() })
	process.Do(t, client,
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	load := func(more ...string) []string {
		return append([]string{"load", "ks.t", file, "--addr", s.CQL, "--checkpoint", checkpoint, "--errors", rejected,
			"--max-errors=-1"}, more...)
	}
	for range 3 {
		before, _ := os.ReadFile(checkpoint)
		cmd := process.Command(t, load("--rate", "4000")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "progress of the load", func() bool {
			now, _ := os.ReadFile(checkpoint)
			return string(now) != string(before)
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the error only reports that the process was killed
	}
	out, err := process.Command(t, load()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "resuming after line") ||
		!strings.Contains(string(out), fmt.Sprintf("%d rows loaded, %d rejected", rows-bad, bad)) {
		t.Errorf("the last load: %v\n%s", err, out)
	}
	reasons, err := os.ReadFile(rejected)
	if n := strings.Count(string(reasons), "\n"); err != nil || n != bad {
		t.Errorf("%d lines were rejected, %d were invalid: %v", n, bad, err)
	}
	r, err := client.Query("SELECT k, v FROM ks.t")
	if err != nil || r.RowCount != rows-bad {
		t.Fatalf("got %d rows, the file has %d: %v", r.RowCount, rows-bad, err)
	}
}
