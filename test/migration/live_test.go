// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package migration tests imports from a live server while the import process is killed. The source is Ilion by
// default, or a real Cassandra with the flag -source.
package migration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

var (
	source = flag.String("source", "", "HOST:PORT of an Apache Cassandra to import from; its keyspaces uprofile and "+
		"live are dropped (default: a node of Ilion)")
	rows = flag.Int("rows", 800, "number of rows of the largest table")
)

func TestMain(m *testing.M) { process.Main(m) }

// schema holds tables that are common in articles about partitioned tables, a table with all kinds of cells, and a
// table of counters.
var schema = []string{
	"CREATE KEYSPACE uprofile WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	"CREATE KEYSPACE live WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	"CREATE TABLE uprofile.user (user text, id int, message text, PRIMARY KEY (user, id))",
	"CREATE TABLE uprofile.person (firstname text, lastname text, id int, message text, " +
		"PRIMARY KEY ((firstname, lastname), id))",
	"CREATE TABLE live.magazine_name (id int PRIMARY KEY, name text, publicationFrequency text)",
	"CREATE TABLE live.magazine_publisher (publisher text, id int, name text, publicationFrequency text, " +
		"PRIMARY KEY (publisher, id)) WITH CLUSTERING ORDER BY (id DESC)",
	"CREATE TABLE live.server_logs (log_hour timestamp, log_level text, message text, server text, " +
		"PRIMARY KEY ((log_hour, server), log_level)) WITH CLUSTERING ORDER BY (log_level DESC)",
	"CREATE TYPE live.place (street text, number int)",
	"CREATE TABLE live.kinds (k int, c timeuuid, s text static, m map<text, int>, l list<int>, e set<text>, p place, " +
		"f frozen<place>, v vector<float, 2>, d duration, t tuple<int, text>, PRIMARY KEY (k, c))",
	"CREATE TABLE live.hits (page text, day int, n counter, PRIMARY KEY (page, day))",
	"CREATE TABLE live.big (k int, c int, v text, w bigint, PRIMARY KEY (k, c))",
	"CREATE INDEX by_w ON live.big (w)",
}

// tables maps the tables to compare to the columns that are read.
var tables = map[string]string{
	"uprofile.user": "user, id, message, writetime(message)", "uprofile.person": "firstname, lastname, id, message",
	"live.magazine_name":      "id, name, writetime(name), publicationfrequency",
	"live.magazine_publisher": "publisher, id, name, writetime(name), publicationfrequency",
	"live.server_logs":        "log_hour, server, log_level, message, writetime(message)",
	"live.kinds":              "k, c, s, m, writetime(m), l, e, writetime(e), p, f, v, d, t, writetime(t)",
	"live.hits":               "page, day, n", "live.big": "k, c, v, writetime(v), w, writetime(w)",
}

const perPartition = 50

// statement returns a random statement.
func statement(r *rand.Rand) string {
	n := r.IntN
	big := n(*rows)
	where := fmt.Sprintf(" WHERE k = %d AND c = %d", big/perPartition, big%perPartition)
	kinds := fmt.Sprintf(" WHERE k = %d AND c = 00000000-0000-1000-8080-80808080800%d", n(20), n(3))
	switch n(16) {
	case 0:
		return "DELETE FROM live.big" + where
	case 1:
		return fmt.Sprintf("DELETE FROM live.big WHERE k = %d AND c > %d", big/perPartition, n(perPartition))
	case 2:
		return fmt.Sprintf("UPDATE live.big USING TTL %d SET v = 'for a while'", 1+n(30)) + where
	case 3:
		return fmt.Sprintf("INSERT INTO live.big (k, c, v, w) VALUES (%d, %d, 'new', %d)", *rows+n(100), n(99), n(9))
	case 4:
		return "DELETE v FROM live.big" + where
	case 5:
		return fmt.Sprintf("INSERT INTO uprofile.user (user, id, message) VALUES ('user %d', %d, 'text')", n(20), n(20))
	case 6:
		return fmt.Sprintf("INSERT INTO uprofile.person (firstname, lastname, id) VALUES ('%d', '', %d)", n(9), n(9))
	case 7:
		return fmt.Sprintf("DELETE FROM uprofile.user WHERE user = 'user %d'", n(20))
	case 8:
		return fmt.Sprintf("INSERT INTO live.magazine_publisher (publisher, id, name) VALUES ('%d', %d, '%d')", n(9), n(9),
			n(9))
	case 9:
		return fmt.Sprintf("INSERT INTO live.server_logs (log_hour, server, log_level, message) VALUES (%d, '%d', '%d', '') "+
			"USING TTL 100000", n(9)*3600000, n(3), n(5))
	case 10:
		return fmt.Sprintf("UPDATE live.hits SET n = n + %d WHERE page = 'page %d' AND day = %d", n(100)-20, n(20), n(5))
	case 11:
		set := []string{"m['%d'] = 1", "l = l + [%d]", "e = e + {'%d'}", "e = e - {'%d'}", "p.number = %d",
			"p.street = null", "m = {'%d': 2}", "l = [%d]", "t = (%d, null)", "d = %dmo3d", "v = [%d, 2]",
			"f = {street: '%d'}"}[n(12)]
		if strings.Contains(set, "%d") {
			set = fmt.Sprintf(set, n(5))
		}
		return "UPDATE live.kinds SET " + set + kinds
	case 12:
		return fmt.Sprintf("UPDATE live.kinds SET s = '%d' WHERE k = %d", n(5), n(20))
	case 13:
		return "DELETE FROM live.kinds" + kinds
	case 14:
		return fmt.Sprintf("INSERT INTO live.magazine_name (id, name) VALUES (%d, '')", n(50))
	}
	return fmt.Sprintf("UPDATE live.big SET v = '%d', w = %d", n(1000), n(1000)) + where
}

// load fills the largest table.
func load(t *testing.T, addr string) {
	dir := t.TempDir()
	var b bytes.Buffer
	for i := range *rows {
		fmt.Fprintf(&b, `{"k":%d,"c":%d,"v":"a text of some length, as applications have it: %d","w":%d}`+"\n",
			i/perPartition, i%perPartition, i, i%100)
	}
	path := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(process.Binary(t), "load", "live.big", path, "--format", "json", "--addr", addr,
		"--no-progress", "--checkpoint", filepath.Join(dir, "c"), "--errors", filepath.Join(dir, "e")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("loaded: %s", out)
}

// importer runs ilion import as a process.
type importer struct {
	t    *testing.T
	args []string
	dir  string
}

func (i *importer) start(args ...string) (*exec.Cmd, *bytes.Buffer) {
	i.t.Helper()
	var out bytes.Buffer
	verb := []string{"import"}
	if args[0] == "verify" {
		verb, args = append(verb, "verify"), args[1:]
	}
	cmd := exec.Command(process.Binary(i.t), slices.Concat(verb, i.args, args)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, i.dir
	if err := cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	return cmd, &out
}

// run runs the import, which must succeed.
func (i *importer) run(args ...string) {
	i.t.Helper()
	cmd, out := i.start(args...)
	if err := cmd.Wait(); err != nil {
		i.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	i.t.Logf("%v:\n%s", args, out)
}

// kill kills the import after a time, or when the checkpoint reports a number of completed ranges.
func (i *importer) kill(ranges int, after time.Duration, args ...string) {
	i.t.Helper()
	cmd, _ := i.start(args...)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the error reports that the process was killed
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(after):
	}
	eventually.None(i.t, "the import is in progress", 10*time.Minute, func() string {
		if ranges == 0 || i.done() >= ranges || cmd.ProcessState != nil {
			return ""
		}
		return fmt.Sprintf("%d ranges", i.done())
	})
	_ = cmd.Process.Kill() // the process may have ended
	<-ended
	i.t.Logf("%v: killed after %d completed ranges", args, i.done())
}

// done returns the number of ranges that the current pass has completed according to the checkpoint.
func (i *importer) done() (n int) {
	var state struct {
		Pass   int
		Mode   string
		Tables []struct {
			Ranges []struct {
				Pass int `json:"pass"`
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(i.dir, "checkpoint"))
	if err != nil || json.Unmarshal(text, &state) != nil || state.Mode == "" {
		return 0
	}
	for _, t := range state.Tables {
		for _, r := range t.Ranges {
			if r.Pass == state.Pass {
				n++
			}
		}
	}
	return n
}

// TestLive imports from a server while clients write rows, delete rows, and write rows that expire. The import process
// is killed while it creates the schema, copies rows, follows changes, and verifies the result. After the writers have
// stopped, the import must report that both sides are equal. The test then compares the sides independently.
func TestLive(t *testing.T) {
	from := *source
	if from == "" {
		from = process.Start(t, t.TempDir()).CQL
	}
	to := process.Start(t, t.TempDir()).CQL
	dial := func(addr string) *rawclient.Conn {
		c, err := rawclient.Dial(t.Context(), addr, rawclient.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial(from)
	drops := []string{"DROP KEYSPACE IF EXISTS uprofile", "DROP KEYSPACE IF EXISTS live"}
	for _, text := range slices.Concat(drops, schema) {
		if _, err := c.Query(text); err != nil {
			t.Fatal(err)
		}
	}
	load(t, from)

	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var written [2]int
	for i := range written {
		c, r := dial(from), rand.New(rand.NewPCG(uint64(i), 7))
		writers.Go(func() {
			for writing.Err() == nil {
				if _, err := c.Query(statement(r)); err != nil {
					t.Errorf("%v", err)
					return
				}
				written[i]++
			}
		})
	}
	dir := t.TempDir()
	imp := &importer{t: t, dir: dir, args: []string{"--from", from, "--addr", to, "--keyspaces", "uprofile,live",
		"--connections", "4", "--no-progress", "--range-mb", "4", "--checkpoint", filepath.Join(dir, "checkpoint"),
		"--errors", filepath.Join(dir, "errors"), "--rate", fmt.Sprint(max(400, *rows/20))}}
	for _, ms := range []time.Duration{30, 100, 200, 400} {
		imp.kill(0, ms*time.Millisecond, "--verify")
	}
	imp.kill(8, 0, "--verify")
	imp.kill(24, 0, "--verify")
	imp.run("--dry-run")
	began := time.Now()
	imp.run("--pause", "1s")
	t.Logf("copied in %v", time.Since(began))
	imp.kill(16, 0, "--follow", "--pause", "100ms")
	stop()
	writers.Wait()
	t.Logf("%v statements were executed in the meantime", written)
	imp.run("--follow", "--until-equal", "--pause", "1s")
	imp.kill(16, 0, "verify")
	imp.run("verify")
	for table, columns := range tables {
		// Cells expire on both sides, but not at the same time.
		eventually.None(t, "both sides are equal", 2*time.Minute, func() string {
			want, n := sum(t, from, table, columns)
			if got, m := sum(t, to, table, columns); got != want || n != m {
				return fmt.Sprintf("table %s: %d rows in the source, %d in the target, with differences", table, n, m)
			}
			t.Logf("%s: %d rows", table, n)
			return ""
		})
	}
}

// sum returns the sum of the hashes of a table's rows in text form.
func sum(t *testing.T, addr, table, columns string) (total uint64, n int) {
	r := &bulk.Reader{Client: bulk.Client{Consistency: dberr.LocalQuorum, Retries: 5}, Addr: addr}
	defer r.Close()
	err := r.Pages(t.Context(), "SELECT "+columns+" FROM "+table, func(p *cqlwire.Result) error {
		return bulk.EachRow(p, func(row [][]byte) error {
			var b bytes.Buffer
			for i, v := range row {
				text := "null"
				if v != nil {
					text = p.Columns[i].Type.Format(v)
				}
				fmt.Fprintf(&b, "%q ", text)
			}
			hash := sha256.Sum256(b.Bytes())
			total += binary.BigEndian.Uint64(hash[:])
			n++
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return total, n
}
