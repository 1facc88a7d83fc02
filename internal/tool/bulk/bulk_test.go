// SPDX-License-Identifier: Apache-2.0

package bulk_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/bulk/text"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// server is a database with a keyspace ks.
type server struct {
	t    *testing.T
	conn *rawclient.Conn
	bulk.Client
}

func serve(t *testing.T) *server {
	t.Helper()
	db, err := ilion.Start(t.Context(), ilion.Options{Periodic: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := &server{t: t, Client: bulk.Client{Addrs: []string{db.CQLAddr().String()}, Connections: 3, InFlight: 16,
		Retries: 5, Consistency: dberr.LocalQuorum}}
	if s.conn, err = rawclient.Dial(t.Context(), s.Addrs[0], rawclient.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	s.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	return s
}

func (s *server) run(statements ...string) {
	s.t.Helper()
	for _, text := range statements {
		if _, err := s.conn.Query(text); err != nil {
			s.t.Fatal(err)
		}
	}
}

var csv = bulk.Format{Header: true, Dialect: text.Dialect{Delimiter: ',', Quote: '"', Escape: '"'}}

func named(table string) bulk.Name { return bulk.Name{Keyspace: "ks", Table: table} }

// unload returns the sorted text of a table.
func (s *server) unload(f bulk.Format, table string) string {
	s.t.Helper()
	var out bytes.Buffer
	_, err := bulk.Unload(s.t.Context(), bulk.UnloadOptions{Client: s.Client, Table: named(table),
		Path: bulk.Stdio, Stdout: &out, Format: f, Ranges: 5})
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const everything = `(k int, c text, s text static, a ascii, bi bigint, b blob, bo boolean, d date, de decimal, do double,
	du duration, f float, i inet, l list<text>, m map<text, frozen<list<int>>>, se set<text>, t time, ts timestamp,
	tu tuple<int, text>, ti tinyint, u u, fu frozen<u>, v vector<float, 2>, va varint, id uuid, tid timeuuid,
	"Odd ""name" text, PRIMARY KEY (k, c))`

// TestRoundTrip checks that a table with columns of every type is unchanged when it is unloaded and then loaded into
// another table. The test covers CSV in every dialect and JSON lines. It uses one file and many files, with and
// without compression.
func TestRoundTrip(t *testing.T) {
	s := serve(t)
	s.run("CREATE TYPE ks.u (x int, y text)")
	for _, name := range []string{"t", "t2"} {
		s.run("CREATE TABLE ks." + name + " " + everything)
	}
	rapid.Check(t, func(t *rapid.T) {
		s.run("TRUNCATE ks.t", "TRUNCATE ks.t2")
		for i := range rapid.IntRange(0, 12).Draw(t, "rows") {
			s.run(draw(t, i))
		}
		f := csv
		f.JSON = rapid.Bool().Draw(t, "json")
		f.Dialect.Delimiter = rapid.SampledFrom([]byte(",;|\t")).Draw(t, "delimiter")
		f.Dialect.Escape = rapid.SampledFrom([]byte(`"\`)).Draw(t, "escape")
		f.Dialect.Null = rapid.SampledFrom([]string{"", "null"}).Draw(t, "null")
		dir, err := os.MkdirTemp(s.t.TempDir(), "unload")
		if err != nil {
			t.Fatal(err)
		}
		o := bulk.UnloadOptions{Client: s.Client, Table: named("t"), Path: dir, Format: f, Ranges: 3,
			Compression: rapid.SampledFrom([]bulk.Compression{bulk.Plain, bulk.Gzip, bulk.Zstd}).Draw(t, "compression")}
		if _, err := bulk.Unload(s.t.Context(), o); err != nil {
			t.Fatal(err)
		}
		rep, err := bulk.Load(s.t.Context(), bulk.LoadOptions{Client: s.Client, Table: named("t2"),
			Paths: []string{dir}, Format: f, Checkpoint: filepath.Join(dir, "checkpoint"),
			Errors: filepath.Join(dir, "errors")})
		if err != nil || rep.Rejected > 0 {
			why, _ := os.ReadFile(filepath.Join(dir, "errors"))
			t.Fatalf("%+v, %v: %s", rep, err, why)
		}
		if was, is := s.unload(csv, "t"), s.unload(csv, "t2"); was != is {
			t.Fatalf("it was\n%s\nand is\n%s", was, is)
		}
	})
}

// draw returns an INSERT of a row with some of the columns of table t.
func draw(t *rapid.T, i int) string {
	str := func() string {
		return bulk.Quote(rapid.StringOfN(rapid.RuneFrom([]rune("ab\n\r\t'\"\\,;|{}[]: é日")), 0, 5, -1).Draw(t, "text"))
	}
	names, values := []string{"k", "c"}, []string{fmt.Sprint(i % 4), bulk.Quote(fmt.Sprint(i))}
	add := func(name string, value func() string) {
		if rapid.IntRange(0, 3).Draw(t, name) > 0 {
			names, values = append(names, name), append(values, value())
		}
	}
	one := func(l ...string) func() string { return func() string { return rapid.SampledFrom(l).Draw(t, "value") } }
	add("s", str)
	add("a", one("''", "'a,b'", "'null'"))
	add("bi", one("0", "-9223372036854775808"))
	add("b", one("0x", "0x00ff"))
	add("bo", one("true", "false"))
	add("d", one("'1970-01-01'", "'2024-02-29'"))
	add("de", one("1.10", "-1E+30", "0"))
	add("do", one("NaN", "-Infinity", "1.5e-300"))
	add("du", one("1y2mo3d4h", "-5ns", "0s"))
	add("f", one("1.1", "NaN"))
	add("i", one("'127.0.0.1'", "'::1'"))
	add("l", func() string { return "[" + str() + ", " + str() + "]" })
	add("m", func() string { return "{" + str() + ": [1, 2]}" })
	add("se", func() string { return "{" + str() + ", " + str() + "}" })
	add("t", one("'00:00:00'", "'23:59:59.999999999'"))
	add("ts", one("0", "-1", "'2024-02-29T12:00:00.123Z'", "9223372036854775807"))
	add("tu", one("(1, 'a')", "(null, '')"))
	add("ti", one("-128"))
	add("u", func() string { return "{x: 1, y: " + str() + "}" })
	add("fu", one("{x: null, y: ''}", "{x: 5}"))
	add("v", one("[1.5, -0.25]"))
	add("va", one("123456789012345678901234567890", "-1"))
	add("id", one("5f1e2a3c-0000-4000-8000-000000000001"))
	add("tid", one("8ac6d1dc-fbeb-11e9-8f0b-362b9e155667"))
	add(`"Odd ""name"`, str)
	return "INSERT INTO ks.t (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

// load loads CSV text, and returns the report and the contents of the error file.
func (s *server) load(table, content string, change func(*bulk.LoadOptions)) (*bulk.LoadReport, string, error) {
	s.t.Helper()
	dir := s.t.TempDir()
	o := bulk.LoadOptions{Client: s.Client, Table: named(table), Paths: []string{bulk.Stdio},
		Stdin: strings.NewReader(content), Format: csv, MaxErrors: 10, Errors: filepath.Join(dir, "errors")}
	if change != nil {
		change(&o)
	}
	rep, err := bulk.Load(s.t.Context(), o)
	rejects, _ := os.ReadFile(o.Errors)
	return rep, string(rejects), err
}

// TestRejects checks that the error file contains each row that cannot be loaded. It must contain the line number of
// the row and the reason. The other rows must be loaded. A load must fail if too many rows are rejected. A dry run
// must report the same errors and write no rows.
func TestRejects(t *testing.T) {
	s := serve(t)
	s.run("CREATE TABLE ks.r (k int PRIMARY KEY, v text, n int)")
	content := "k,n,v\n1,1,one\n2,x,two\n3,3,\"three\nlines\"\n,4,four\n5,5\n6,,\"\"\n"
	want := []string{`"line":3,"reason":"column n: int: Unable to make int from 'x'"`,
		`"line":6,"reason":"column k of the primary key is null`,
		`"line":7,"reason":"the record has 2 fields instead of 3"`}
	for _, dry := range []bool{true, false} {
		rep, rejects, err := s.load("r", content, func(o *bulk.LoadOptions) { o.DryRun = dry })
		if err != nil || rep.Loaded != 3 || rep.Rejected != 3 {
			t.Errorf("dry run %v: %+v, %v", dry, rep, err)
		}
		for _, w := range want {
			if !strings.Contains(rejects, w) {
				t.Errorf("dry run %v: %s is not in %s", dry, w, rejects)
			}
		}
		rows := map[bool]string{true: "k,n,v", false: "1,1,one\n3,3,\"three\n6,,\"\"\nk,n,v\nlines\""}[dry]
		if dry {
			rows = "" // no range has rows, so only the first page has a header
		}
		if got := s.unload(csv, "r"); !dry && !strings.Contains(got, rows) || dry && strings.Contains(got, "one") {
			t.Errorf("dry run %v: the table has\n%s", dry, got)
		}
	}
	_, _, err := s.load("r", content, func(o *bulk.LoadOptions) { o.MaxErrors = 1 })
	if err == nil || !strings.Contains(err.Error(), "too many rows were rejected") {
		t.Errorf("too many: %v", err)
	}
	for content, want := range map[string]string{"k,z\n1,2\n": "has no column z",
		"n,v\n1,2\n": "primary key column k is missing",
		"k,k\n1,2\n": "is specified twice", "k,v\n1,\"a\n": "the file ends within quotes"} {
		if _, _, err := s.load("r", content, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	if _, _, err := s.load("absent", content, nil); err == nil ||
		!strings.Contains(err.Error(), "table ks.absent does not exist") {
		t.Errorf("no table: %v", err)
	}
}

// TestWritten checks the effects of TTL, timestamp, nulls, and counters.
func TestWritten(t *testing.T) {
	s := serve(t)
	s.run("CREATE TABLE ks.w (k int PRIMARY KEY, v text, n int)", "CREATE TABLE ks.c (k int PRIMARY KEY, n counter)",
		"INSERT INTO ks.w (k, v, n) VALUES (1, 'kept', 1) USING TIMESTAMP 5")
	first := func(o *bulk.LoadOptions) { o.TTL, o.Timestamp = 1000, 77 }
	if rep, _, err := s.load("w", "k,v,n\n1,,2\n", first); err != nil || rep.Loaded != 1 {
		t.Fatal(rep, err)
	}
	var out bytes.Buffer
	query := func(text string) string {
		out.Reset()
		_, err := bulk.Unload(t.Context(), bulk.UnloadOptions{Client: s.Client, Query: text, Path: bulk.Stdio,
			Stdout: &out, Format: csv})
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	got := query("SELECT v, n, writetime(n) AS w FROM ks.w")
	if got != "v,n,w\nkept,2,77\n" {
		t.Errorf("%q", got)
	}
	if got := query("SELECT ttl(n) AS t FROM ks.w"); got == "t\n\n" {
		t.Error("there is no TTL")
	}
	if _, _, err := s.load("w", "k,v\n1,\n", func(o *bulk.LoadOptions) { o.NullsDelete = true }); err != nil {
		t.Fatal(err)
	}
	if got := query("SELECT v FROM ks.w"); got != "v\n\n" {
		t.Errorf("a null did not delete the value: %q", got)
	}
	for range 2 {
		if _, _, err := s.load("c", "k,n\n1,5\n2,\n", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := query("SELECT n FROM ks.c WHERE k = 1"); got != "n\n10\n" {
		t.Errorf("counter: %q", got)
	}
}

// TestThrottled checks that a load completes although the table has only a fraction of the required throughput. A
// request that exceeds the throughput limit must be sent again. While other requests succeed, the option Retries must
// not limit the number of attempts.
func TestThrottled(t *testing.T) {
	s := serve(t)
	s.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH throughput = 400")
	s.Retries = 1
	var rows strings.Builder
	rows.WriteString("k,v\n")
	for i := range 500 {
		fmt.Fprintf(&rows, "%d,%s\n", i, strings.Repeat("x", 500))
	}
	report, rejected, err := s.load("t", rows.String(), nil)
	if err != nil || report.Rows != 500 || rejected != "" || report.Again == 0 {
		t.Errorf("%+v, %q, %v", report, rejected, err)
	}
}

// TestResumes checks that an interrupted load resumes after the last committed rows. The table must then equal the
// result of an uninterrupted load, and the error file must contain each rejected row once. A load with other files
// must be rejected. A second unload into a directory must be rejected unless Restart is set.
func TestResumes(t *testing.T) {
	s := serve(t)
	s.run("CREATE TABLE ks.m (k int PRIMARY KEY, v text)")
	const rows = 6000
	var content strings.Builder
	content.WriteString("k,v\n")
	for i := range rows {
		key := fmt.Sprint(i)
		if i%1000 == 7 {
			key = "x"
		}
		fmt.Fprintf(&content, "%s,%0200d\n", key, i)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(file, []byte(content.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := bulk.LoadOptions{Client: s.Client, Table: named("m"), Paths: []string{file}, Format: csv, MaxErrors: -1,
		Checkpoint: filepath.Join(dir, "checkpoint"), Errors: filepath.Join(dir, "errors")}
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = &bulk.Progress{}
	defer cancel()
	o.Rate, o.Client.Connections = 1000, 1
	var rep *bulk.LoadReport
	var err error
	ended := make(chan struct{})
	go func() {
		rep, err = bulk.Load(ctx, o)
		close(ended)
	}()
	eventually.None(t, "a block is committed", eventually.Limit, func() string {
		if o.Progress.Done.Load() > 0 {
			return ""
		}
		return "none is"
	})
	cancel()
	<-ended
	if err == nil || rep.Loaded == 0 || rep.Loaded >= rows-6 {
		t.Fatalf("the first run: %+v, %v", rep, err)
	}
	changed := o
	changed.Paths = []string{file, file}
	if _, err := bulk.Load(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "--restart") {
		t.Errorf("other files: %v", err)
	}
	o.Progress, o.Rate = nil, 0
	again, err := bulk.Load(t.Context(), o)
	if err != nil || !again.Resumed || again.Loaded != rows-6 || again.Rejected != 6 || again.Rows >= rows-6 {
		t.Errorf("the second run: %+v, %v", again, err)
	}
	rejects, err := os.ReadFile(o.Errors)
	if err != nil || strings.Count(string(rejects), "\n") != 6 {
		t.Errorf("rejects: %v\n%s", err, rejects)
	}
	if got := strings.Count(s.unload(csv, "m"), "\n"); got != rows-6+1 {
		t.Errorf("the table has %d rows", got-1)
	}
	if _, err := os.Stat(o.Checkpoint); err == nil {
		t.Error("the checkpoint still exists")
	}

	u := bulk.UnloadOptions{Client: s.Client, Table: named("m"), Path: filepath.Join(dir, "out") + "/", Format: csv,
		Ranges: 8}
	if _, err := bulk.Unload(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if _, err := bulk.Unload(t.Context(), u); err == nil || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("a second unload: %v", err)
	}
	u.Restart = true
	if rep, err := bulk.Unload(t.Context(), u); err != nil || rep.Rows != rows-6 || rep.Skipped != 0 {
		t.Errorf("after a restart: %+v, %v", rep, err)
	}
}
