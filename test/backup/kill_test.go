// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
)

// stored counts the files of a repository below a directory.
func stored(dir, below string) (n int) {
	_ = filepath.WalkDir(filepath.Join(dir, below), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "cluster" { // this file identifies the repository's cluster
			n++
		}
		return nil
	})
	return n
}

// killed runs a command and kills it as soon as when returns true. killed returns false if the command finished
// earlier.
func (c *cluster) killed(i int, when func() bool, args ...string) bool {
	c.t.Helper()
	ctx, kill := context.WithCancel(c.t.Context())
	defer kill()
	ended := make(chan error, 1)
	go func() {
		_, err := c.tool(ctx, append(args, "--data", c.dir(i))...)
		ended <- err
	}()
	eventually.True(c.t, "progress of the command", func() bool { return when() || len(ended) > 0 })
	kill()
	return <-ended != nil
}

// TestKilled kills a backup, a node that is being read, and a restore. When the same commands run again, they must
// complete the operations and must not store existing data again.
func TestKilled(t *testing.T) {
	t.Parallel()
	c := start(t, 1, 8)
	c.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE ks.place (x int, y int)",
		"CREATE TABLE ks.t (p int, k int, s text STATIC, v text, at frozen<place>, PRIMARY KEY (p, k))",
		"CREATE INDEX by_v ON ks.t (v)",
		"CREATE MATERIALIZED VIEW ks.seen AS SELECT p, k, v FROM ks.t WHERE v IS NOT NULL AND p IS NOT NULL AND "+
			"k IS NOT NULL PRIMARY KEY (v, p, k)",
		"CREATE TABLE ks.counted (p int PRIMARY KEY, n counter)")
	const rows = 2000
	long := strings.Repeat("x", 2000)
	for i := range rows {
		err := c.cql.Query("INSERT INTO ks.t (p, k, s, v, at) VALUES (?, ?, ?, ?, {x: 1, y: 2})", i%100, i, "static",
			long+string(rune('a'+i%7))).Exec()
		if err != nil {
			t.Fatal(err)
		}
	}
	c.do("DELETE FROM ks.t WHERE p = 7", "DELETE FROM ks.t WHERE p = 8 AND k > 100",
		"UPDATE ks.counted SET n = n + 41 WHERE p = 1", "UPDATE ks.counted SET n = n + 1 WHERE p = 1")
	left := c.count("ks.t")
	to := filepath.Join(c.base, "backups")
	slow := []string{"backup", "--to", to, "--rate", "1", "--parallel", "1"}
	killed := c.killed(0, func() bool { return stored(to, "pending") >= 2 }, slow...)
	if killed && stored(to, "backups") > 0 {
		t.Fatal("a killed backup is listed as complete")
	}
	had := map[string]time.Time{}
	_ = filepath.WalkDir(filepath.Join(to, "files"), func(path string, e fs.DirEntry, err error) error {
		if info, bad := e.Info(); err == nil && bad == nil && !e.IsDir() {
			had[path] = info.ModTime()
		}
		return nil
	})
	ended := make(chan string, 1)
	go func() {
		out, _ := c.ilion(0, slow...)
		ended <- out
	}()
	eventually.True(t, "start of the second backup", func() bool {
		return stored(to, "files") > len(had) || len(ended) > 0
	})
	c.nodes[0].Kill()
	c.restart(0)
	c.connect(0)
	t.Logf("backup from a killed node: %s", <-ended)
	c.must(0, "backup", "--to", to, "--rate", "0")
	for path, at := range had {
		info, err := os.Stat(path)
		if err != nil || !info.ModTime().Equal(at) {
			t.Errorf("%s was stored again: %v", path, err)
		}
	}
	if n := stored(to, "pending"); n > 0 {
		t.Errorf("%d records of incomplete backups remain", n)
	}

	other := start(t, 1, 3)
	restore := []string{"restore", "--from", to}
	other.killed(0, func() bool {
		return errors.Is(other.cql.Query("SELECT p FROM ks.t LIMIT 1").Scan(new(int)), nil)
	}, append(restore, "--rate", "1", "--parallel", "1")...)
	other.must(0, restore...)
	if n := other.count("ks.t"); n != left {
		t.Errorf("restored %d rows, want %d", n, left)
	}
	if out, err := other.ilion(0, restore...); err == nil || !strings.Contains(out, "already") {
		t.Errorf("a restore replaced an existing table: %v %s", err, out)
	}
	eventually.None(t, "index and view", eventually.Limit, func() string {
		a, b := 0, 0
		if err := other.cql.Query("SELECT count(*) FROM ks.t WHERE v = ?", long+"a").Scan(&a); err != nil {
			return err.Error()
		}
		if err := other.cql.Query("SELECT count(*) FROM ks.seen WHERE v = ?", long+"a").Scan(&b); err != nil {
			return err.Error()
		}
		if a < left/8 || a != b {
			return "rows are missing"
		}
		return ""
	})
	other.must(0, "restore", "ks.t", "--as", "ks.again", "--from", to, "--rate", "0")
	if n := other.count("ks.again"); n != left {
		t.Errorf("restored %d rows under another name, want %d", n, left)
	}
	var n int64
	if err := other.cql.Query("SELECT n FROM ks.counted WHERE p = 1").Scan(&n); err != nil || n != 42 {
		t.Errorf("the counter is %d, want 42: %v", n, err)
	}
}
