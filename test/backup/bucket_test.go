// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/s3"
)

// say runs a command of the tool that needs no node, and returns its output.
func (c *cluster) say(args ...string) string {
	c.t.Helper()
	out, err := c.tool(c.t.Context(), args...)
	if err != nil {
		c.t.Fatalf("ilion %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	c.t.Logf("ilion %s\n%s", strings.Join(args, " "), out)
	return out
}

// fill creates a table of rows that compress badly. The table therefore has several files.
func (c *cluster) fill(rows int) {
	c.t.Helper()
	c.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (p int PRIMARY KEY, v text)", "CREATE INDEX by_v ON ks.t (v)",
		"CREATE MATERIALIZED VIEW ks.seen AS SELECT p, v FROM ks.t WHERE v IS NOT NULL AND p IS NOT NULL "+
			"PRIMARY KEY (v, p)")
	for i := range rows {
		v := strings.Repeat(fmt.Sprintf("%x", uint64(i+1)*0x9e3779b97f4a7c15), 60)
		if err := c.cql.Query("INSERT INTO ks.t (p, v) VALUES (?, ?)", i, v).Exec(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// keepIn makes two backups in an encrypted repository. Between the backups, it changes one row. It lists, verifies,
// and restores the backups, and checks that the key is required.
func (c *cluster) keepIn(place string, rows int) {
	c.t.Helper()
	key := filepath.Join(c.base, "key")
	if _, err := os.Stat(key); err != nil {
		c.say("backup", "key", key)
	}
	c.must(0, "backup", "--to", place, "--key-file", key, "--rate", "0")
	c.do("INSERT INTO ks.t (p, v) VALUES (-1, 'new')")
	out := c.must(0, "backup", "--to", place, "--key-file", key, "--rate", "0")
	if strings.Contains(out, ", 0 of them new") {
		c.t.Error("a changed row was not stored")
	}
	if out = c.say("backup", "list", place, "--key-file", key); strings.Count(out, "\n") < 2 {
		c.t.Errorf("made two backups, got the list: %s", out)
	}
	c.say("backup", "verify", place, "--key-file", key)
	for _, args := range [][]string{{"list", place}, {"verify", place}} {
		out, err := c.tool(c.t.Context(), append([]string{"backup"}, args...)...)
		if err == nil || !strings.Contains(out, "--key-file") {
			c.t.Errorf("without the key: %v\n%s", err, out)
		}
	}
	other := start(c.t, 1, 2)
	other.must(0, "restore", "--from", place, "--key-file", key, "--rate", "0")
	if n := other.count("ks.t"); n != rows+1 {
		c.t.Errorf("restored %d rows, want %d", n, rows+1)
	}
}

// TestBucket makes backups in an encrypted repository in a bucket whose server fails in various ways. It kills one
// backup. The next backup must reuse the stored files, and the restored data must equal the original data. Flipped
// bits must be detected.
func TestBucket(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := s3.New(t, 1)
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	c := start(t, 1, 6)
	const rows, place = 400, "s3://" + s3.Bucket + "/ilion"
	c.fill(rows)
	stored := func(below string) (names []string) {
		s.Change(func(objects map[string][]byte) {
			for key := range objects {
				if strings.HasPrefix(key, "ilion/"+below) && key != "ilion/backups/cluster" {
					names = append(names, key)
				}
			}
		})
		return names
	}
	key := filepath.Join(c.base, "key")
	c.say("backup", "key", key)
	if c.killed(0, func() bool { return len(stored("pending/")) >= 2 }, "backup", "--to", place, "--key-file", key,
		"--rate", "1", "--parallel", "1") && len(stored("backups/")) > 0 {
		t.Error("a killed backup is listed as complete")
	}
	had := map[string]bool{}
	for _, name := range stored("files/") {
		had[name] = true
	}
	n := 0
	s.Bad(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && had[strings.TrimPrefix(r.URL.Path, "/"+s3.Bucket+"/")] {
			t.Errorf("%s was stored again", r.URL.Path)
		}
		switch n++; {
		case n%9 == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code></Error>")
		case n%9 == 4:
			_, _ = io.WriteString(w, "<Error><Code>InternalError</Code></Error>")
		case n%9 == 7 && r.Method != http.MethodHead:
			w.Header().Set("Content-Length", "10000")
			_, _ = io.WriteString(w, "ilion")
		default:
			return false
		}
		return true
	})
	c.keepIn(place, rows)
	s.Bad(nil)
	if left := stored("pending/"); len(left) > 0 {
		t.Errorf("files of an incomplete backup remain: %q", left)
	}
	for _, below := range []string{"files/", "backups/"} {
		flip := func(objects map[string][]byte) {
			for name, data := range objects {
				if strings.HasPrefix(name, "ilion/"+below) {
					data[len(data)/2] ^= 4
				}
			}
		}
		s.Change(flip)
		out, err := c.tool(t.Context(), "backup", "verify", place, "--key-file", key)
		if err == nil || !strings.Contains(out, "its contents have changed") {
			t.Errorf("flipped a bit in each of %s: %v\n%s", below, err, out)
		}
		s.Change(flip)
	}
}

// TestRealServer runs the same checks with a real S3 server. Environment variables specify the server
// (test/s3/run.sh).
func TestRealServer(t *testing.T) {
	name := os.Getenv("ILION_TEST_BUCKET")
	if name == "" {
		t.Skip("ILION_TEST_BUCKET is not set: make s3 runs this test with real servers")
	}
	c := start(t, 1, 4)
	const rows = 2000
	c.fill(rows)
	c.keepIn("s3://"+name+"/with spaces+and=signs/ü", rows)
}
