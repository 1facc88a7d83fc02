// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/md5"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestPrepareEveryKind checks that every kind of statement can be prepared. The ID must not change. Executing the
// prepared statement must have the same effect as executing the text. Drivers also prepare DDL.
func TestPrepareEveryKind(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "USE ks")
	for _, text := range []string{
		"CREATE TABLE t (k int PRIMARY KEY, v text)",
		"CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY, v text)",
		"CREATE TYPE addr (street text)",
		"CREATE INDEX ON t (v)",
		"ALTER TABLE t ADD w int",
		"INSERT INTO t (k, v) VALUES (1, 'a')",
		"INSERT INTO t (k, v) VALUES (1, 'b') IF NOT EXISTS",
		"UPDATE t SET v = 'c' WHERE k = 1 IF v = 'a'",
		"DELETE FROM t WHERE k = 1 IF EXISTS",
		"SELECT * FROM t",
		"SELECT JSON * FROM ks.t",
		"SELECT * FROM system.local",
		"BEGIN BATCH INSERT INTO t (k) VALUES (1); DELETE FROM t WHERE k = 2; APPLY BATCH",
		"BEGIN BATCH APPLY BATCH",
		"TRUNCATE t",
		"TRUNCATE TABLE ks.t",
		"DESCRIBE TABLES",
		"DESCRIBE TABLE t",
		"DESCRIBE KEYSPACE ks",
		"USE ks",
		"DROP INDEX t_v_idx",
		"DROP TYPE addr",
		"DROP TABLE t",
		"CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"DROP KEYSPACE other",
	} {
		p := w.prepared(t, w.client, text)
		if len(p.Bind) != 0 {
			t.Errorf("%s: has markers %v", text, p.Bind)
		}
		if again := w.prepared(t, w.client, text); again.ID != p.ID {
			t.Errorf("%s: got another id the second time", text)
		}
		if r := w.run(w.client, (*Session).Execute, Request{ID: p.ID}); r.Err != nil {
			t.Errorf("execute %s: %v", text, r.Err)
		}
	}
	if err := w.try("SELECT * FROM ks.t"); err == nil {
		t.Error("the prepared DROP TABLE has dropped nothing")
	}
}

// TestPrepareErrors checks the errors that PREPARE returns.
func TestPrepareErrors(t *testing.T) {
	w := newFixture(t, Options{Limits: Limits{PreparedBytesMax: 1 << 20}})
	for text, want := range map[string]string{
		"SELEC":                              "line 1:0 no viable alternative at input 'SELEC' ([SELEC])",
		"SELECT * FROM t":                    errNoKeyspace.Error(),
		"TRUNCATE t":                         errNoKeyspace.Error(),
		"CREATE TABLE t (k int PRIMARY KEY)": errNoKeyspace.Error(),
		"INSERT INTO t (k) VALUES (1)":       errNoKeyspace.Error(),
		"SELECT * FROM ks.t":                 "table t does not exist",
		"SELECT * FROM nope.t":               "keyspace nope does not exist",
		"USE nope":                           "",
		"DROP TABLE ks.t":                    "",
		"DROP KEYSPACE nope":                 "",
		"TRUNCATE ks.t":                      "",
		"SELECT * FROM system.local -- " + strings.Repeat("x", 1<<17) +
			"\n": "Prepared statement of size 1052920 bytes is larger than allowed maximum of 1 MB: " +
			"SELECT * FROM system.local -- " + strings.Repeat("x", 170) + "...",
	} {
		r := w.run(w.client, (*Session).Prepare, Request{Text: []byte(text)})
		got := ""
		if r.Err != nil {
			got = r.Err.Error()
		}
		if got != want {
			t.Errorf("prepare %.50s: got error %q, want %q", text, got, want)
		}
	}
}

// TestIDs checks that statement IDs equal Cassandra's IDs. The ID is the hash of the keyspace and the text. If the text
// names the keyspace of every table, the ID is the hash of the text alone and does not depend on the client's keyspace.
func TestIDs(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, here text)")
	w.query(t, "CREATE TABLE other.t (k int PRIMARY KEY, there text)")
	in, out := w.NewSession(Client{}), w.NewSession(Client{})
	w.run(in, (*Session).Query, Request{Text: []byte("USE ks")})
	w.run(out, (*Session).Query, Request{Text: []byte("USE other")})

	const plain, qualified, batch = "SELECT * FROM t", "SELECT * FROM ks.t",
		"BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); DELETE FROM other.t WHERE k = 1; APPLY BATCH"
	for _, c := range []struct {
		session *Session
		text    string
		hashed  string
	}{
		{w.client, qualified, qualified}, {in, qualified, qualified}, {out, qualified, qualified},
		{w.client, batch, batch}, {in, batch, batch},
		{in, plain, "ks" + plain}, {out, plain, "other" + plain},
	} {
		if got := w.prepared(t, c.session, c.text).ID; got != md5.Sum([]byte(c.hashed)) {
			t.Errorf("%s has id %x, want the MD5 of %s", c.text, got, c.hashed)
		}
	}
	// The keyspace of the request (protocol 5) overrides the session's keyspace.
	r := w.run(w.client, (*Session).Prepare, Request{Version: 5, Text: []byte(plain), Keyspace: []byte("other")})
	if r.Err != nil || r.Prepared.ID != md5.Sum([]byte("other"+plain)) || r.Prepared.Result.Columns[1].Name != "there" {
		t.Errorf("in the keyspace of the request: %+v, %v", r.Prepared, r.Err)
	}
	// The meaning of a DESCRIBE without a keyspace depends on the session's keyspace.
	if a, b := w.prepared(t, w.client, "DESCRIBE TABLES").ID, w.prepared(t, in, "DESCRIBE TABLES").ID; a == b {
		t.Error("DESCRIBE TABLES has one id in two keyspaces")
	}
}

// TestAlteredTable checks that ALTER TABLE removes prepared statements. A second PREPARE of the same text must return
// the same ID with the new columns. After the change, clients of version 4 must receive the columns even if they
// request to omit the columns.
func TestAlteredTable(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, a int)")
	w.query(t, "CREATE TABLE ks.u (k int PRIMARY KEY, a int)")
	all, insert, other := w.prepared(t, w.client, "SELECT * FROM ks.t"),
		w.prepared(t, w.client, "INSERT INTO ks.t (k) VALUES (?)"), w.prepared(t, w.client, "SELECT * FROM ks.u")
	before := w.run(w.client, (*Session).Execute, Request{ID: all.ID})
	if before.AlwaysMetadata {
		t.Error("columns are sent of a table that was never altered")
	}
	w.query(t, "ALTER TABLE ks.t ADD b int")
	for _, id := range [][16]byte{all.ID, insert.ID} {
		var unprepared *dberr.Unprepared
		if r := w.run(w.client, (*Session).Execute, Request{ID: id}); !errors.As(r.Err, &unprepared) ||
			unprepared.ID != id {
			t.Errorf("executing a statement on the altered table: %v", r.Err)
		}
	}
	if r := w.run(w.client, (*Session).Execute, Request{ID: other.ID}); r.Err != nil || r.AlwaysMetadata {
		t.Errorf("executing a statement on another table: %v, columns %v", r.Err, r.AlwaysMetadata)
	}
	again := w.prepared(t, w.client, "SELECT * FROM ks.t")
	if again.ID != all.ID || again.Result.ID == all.Result.ID || len(again.Result.Columns) != 3 {
		t.Errorf("prepared again: same id %v, same columns' id %v, %d columns", again.ID == all.ID,
			again.Result.ID == all.Result.ID, len(again.Result.Columns))
	}
	for version, want := range map[uint8]bool{3: true, 4: true, 5: false} {
		if r := w.run(w.client, (*Session).Execute, Request{ID: all.ID, Version: version}); r.Err != nil ||
			r.AlwaysMetadata != want || r.Metadata.ID != again.Result.ID {
			t.Errorf("version %d: columns always sent %v, want %v (%v)", version, r.AlwaysMetadata, want, r.Err)
		}
	}
	// If a change does not affect the columns, the response must not change.
	w.query(t, "ALTER TABLE ks.u WITH comment = 'x'")
	w.prepared(t, w.client, "SELECT * FROM ks.u")
	if r := w.run(w.client, (*Session).Execute, Request{ID: other.ID}); r.Err != nil || r.AlwaysMetadata {
		t.Errorf("after a change of options: %v, columns %v", r.Err, r.AlwaysMetadata)
	}
}

// TestPreparedBounds checks that the cache enforces its limits on the number and memory of statements and evicts unused
// statements. The cache must neither exceed the limits nor stay far below them.
func TestPreparedBounds(t *testing.T) {
	const max = 1000
	c := newPreparedCache(max, 1<<30)
	id := func(i int) [16]byte { return md5.Sum(fmt.Append(nil, i)) }
	for i := range max {
		c.put(id(i), &statement{text: "x"})
	}
	if n := c.len(); n != max || c.evicts.Load() != 0 {
		t.Fatalf("%d statements kept, %d dropped: want %d, 0", n, c.evicts.Load(), max)
	}
	// A statement in use must remain cached while the cache evicts statements that are not executed.
	for i := max; i < 11*max; i++ {
		c.put(id(i), &statement{text: "x"})
		if c.get(id(0)) == nil {
			t.Fatalf("the statement in use was dropped after %d others", i)
		}
		if n := c.len(); n != max {
			t.Fatalf("%d statements kept, want %d", n, max)
		}
	}
	long := &statement{text: strings.Repeat("x", 1000)}
	c = newPreparedCache(max, int(10*(&statement{text: strings.Repeat("x", 1000)}).bytes()))
	for i := range 100 {
		c.put(id(i), long)
	}
	if n := c.len(); n != 10 || c.bytes.Load() != 10*(&statement{text: strings.Repeat("x", 1000)}).bytes() {
		t.Errorf("%d statements of %d bytes kept, want 10", n, c.bytes.Load())
	}
	c.removeIf(func(*statement) bool { return true })
	if c.len() != 0 || c.bytes.Load() != 0 {
		t.Errorf("%d statements of %d bytes left of none", c.len(), c.bytes.Load())
	}
	if newPreparedCache(1, 1<<20).evict(id(1)) {
		t.Error("evicted from an empty cache")
	}
}

// TestPrepareDuringAlter checks (SE1). For any order of PREPARE and ALTER TABLE, the cache must not keep a statement
// with the old columns.
func TestPrepareDuringAlter(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	const rounds = 30
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			s := w.NewSession(Client{})
			for range 20 * rounds {
				if r := w.run(s, (*Session).Prepare, Request{Text: []byte("SELECT * FROM ks.t")}); r.Err != nil {
					t.Error(r.Err)
				}
			}
		})
	}
	for i := range rounds {
		if err := w.try(fmt.Sprintf("ALTER TABLE ks.t ADD c%d int", i)); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if p := w.prepared(t, w.client, "SELECT * FROM ks.t"); len(p.Result.Columns) != rounds+1 {
		t.Errorf("the statement shows %d columns, the table has %d", len(p.Result.Columns), rounds+1)
	}
}

// TestPreparedStatementsAreListed checks the data of system.prepared_statements.
func TestPreparedStatementsAreListed(t *testing.T) {
	w := newFixture(t, Options{})
	p := w.prepared(t, w.client, "SELECT * FROM system.local")
	got := w.PreparedStatements()
	if len(got) != 1 || got[0].ID != p.ID || got[0].Query != "SELECT * FROM system.local" {
		t.Errorf("listed: %+v", got)
	}
}

// TestUseWarning checks that a client of Cassandra 5.0 receives one warning about a statement that depends on USE. The
// client must receive the warning when it prepares the statement, or when it executes a statement that was prepared in
// a different keyspace. Batches and qualified names must cause no warning.
func TestUseWarning(t *testing.T) {
	w := newFixture(t, Options{Release: compat.Cassandra50})
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	in := w.NewSession(Client{})
	w.run(in, (*Session).Query, Request{Text: []byte("USE ks")})
	full := w.prepared(t, w.client, "SELECT * FROM ks.t").ID
	plain := w.prepared(t, in, "SELECT * FROM t").ID
	batch := w.prepared(t, in, "BEGIN BATCH DELETE FROM t WHERE k = 1; APPLY BATCH").ID
	out := w.NewSession(Client{})
	for i, c := range []struct {
		session *Session
		id      [16]byte
		want    string
	}{
		{in, plain, ""},
		{out, full, ""},
		{out, plain, "Keyspace used: null, statement keyspace: ks, statement id: "},
		{out, plain, ""},
		{w.NewSession(Client{}), batch, ""},
	} {
		r := w.run(c.session, (*Session).Execute, Request{ID: c.id})
		got := strings.Join(r.Warnings, " ")
		if r.Err != nil || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%d: told %q, want %q (%v)", i, got, c.want, r.Err)
		}
	}
}
