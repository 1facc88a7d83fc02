// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/migration"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// server is a database.
type server struct {
	t    *testing.T
	conn *rawclient.Conn
	bulk.Client
}

func serve(t *testing.T, o ilion.Options) *server { return serveTo(t, o, rawclient.Options{}) }

// serveTo starts a server for a client that logs in.
func serveTo(t *testing.T, o ilion.Options, login rawclient.Options) *server {
	t.Helper()
	o.Periodic = true
	o.UserDefinedFunctions = true
	db, err := ilion.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := &server{t: t, Client: bulk.Client{Options: login, Addrs: []string{db.CQLAddr().String()}, Connections: 3,
		InFlight: 16, Retries: 5, Consistency: dberr.LocalQuorum}}
	if s.conn, err = rawclient.Dial(t.Context(), s.Addrs[0], login); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
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

// rows returns the sorted text of the rows that a query returns.
func (s *server) rows(text string) string {
	s.t.Helper()
	r, err := s.conn.Query(text)
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	if err := bulk.EachRow(r, func(row [][]byte) error {
		var b strings.Builder
		for i, v := range row {
			text := "null"
			if v != nil {
				text = r.Columns[i].Type.Format(v)
			}
			fmt.Fprintf(&b, "%s=%s ", r.Columns[i].Name, text)
		}
		lines = append(lines, b.String())
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// pair is a source with a schema, an empty target, and a migration between them.
type pair struct {
	source, target *server
	migration.Options
	out bytes.Buffer
}

const keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

func twoServers(t *testing.T, source ilion.Options) *pair {
	t.Helper()
	p := &pair{source: serve(t, source), target: serve(t, ilion.Options{InitialPartitions: 4})}
	dir := t.TempDir()
	p.Options = migration.Options{Source: p.source.Client, Target: p.target.Client, Out: &p.out,
		Checkpoint: filepath.Join(dir, "checkpoint"), Errors: filepath.Join(dir, "errors")}
	p.source.run(keyspace)
	return p
}

// migrate runs the migration, which must succeed.
func (p *pair) migrate() *migration.Report {
	p.source.t.Helper()
	rep, err := migration.Run(p.source.t.Context(), p.Options)
	if err != nil {
		why, _ := os.ReadFile(p.Errors)
		differ := []migration.Difference{}
		if rep != nil {
			differ = rep.Differences
		}
		p.source.t.Fatalf("%v\n%s%s%v", err, p.out.String(), why, differ)
	}
	return rep
}

// same compares the rows of both sides.
func (p *pair) same(query string) {
	p.source.t.Helper()
	if was, is := p.source.rows(query), p.target.rows(query); was != is {
		p.source.t.Fatalf("%s: the source has\n%s\nand the target\n%s", query, was, is)
	}
}

var everything = []string{
	"CREATE TYPE ks.inner (a int, b text)",
	"CREATE TYPE ks.u (x int, y text, z frozen<inner>)",
	"CREATE FUNCTION ks.f (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
	"CREATE AGGREGATE ks.g (int) SFUNC f STYPE int INITCOND 0",
	`CREATE TABLE ks.t (k int, j text, c text, d decimal, s text static, sm map<text, int> static, sl list<int> static,
	v text, "Odd ""name" blob, du duration, tu tuple<int, text>, ve vector<float, 2>, fu frozen<u>, fl frozen<list<int>>,
	m map<text, int>, se set<int>, l list<text>, u u, PRIMARY KEY ((k, j), c, d))
	WITH CLUSTERING ORDER BY (c DESC, d ASC) AND default_time_to_live = 5000 AND comment = 'it''s'`,
	"CREATE TABLE ks.counts (k int, c int, s counter static, a counter, b counter, PRIMARY KEY (k, c))",
	"CREATE TABLE ks.keys (a int, b int, PRIMARY KEY (a, b))",
	"CREATE TABLE ks.dense (k int PRIMARY KEY, v int) WITH COMPACT STORAGE",
	"CREATE INDEX by_v ON ks.t (v)",
	"CREATE MATERIALIZED VIEW ks.mv AS SELECT k, j, c, d, v FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL AND " +
		"j IS NOT NULL AND c IS NOT NULL AND d IS NOT NULL PRIMARY KEY (v, k, j, c, d)",
}

const cellTimes = `SELECT k, j, c, d, s, writetime(s), ttl(s), sm, writetime(sm), sl, writetime(sl), v, writetime(v),
	"Odd ""name", writetime("Odd ""name"), du, writetime(du), tu, writetime(tu), ve, fu, writetime(fu), fl, m,
	writetime(m), se, writetime(se), l, writetime(l), u, writetime(u) FROM ks.t`

// fill writes rows of every kind that a table may have.
func (s *server) fill() {
	s.t.Helper()
	s.run(`INSERT INTO ks.t (k, j, c, d, s, v, "Odd ""name", du, tu, ve, fu, fl, m, se, l, u) VALUES (1, 'a', 'x', 1.50,
			'static', 'v', 0x, 1mo2d3h, (1, null), [1, 2], {x: 1, z: {b: 'q'}}, [], {'a': 1, 'b': 2}, {1, 2}, ['p', 'q'],
			{x: 1, y: 'y'}) USING TIMESTAMP 1000 AND TTL 0`,
		`UPDATE ks.t USING TIMESTAMP 2000 AND TTL 3000 SET v = 'later', m['c'] = 3, se = se + {5}, l = l + ['r'],
			u.y = 'yy' WHERE k = 1 AND j = 'a' AND c = 'x' AND d = 1.5`,
		"INSERT INTO ks.t (k, j, c, d) VALUES (1, 'a', '', 2)",                    // the row has only a marker
		"INSERT INTO ks.t (k, j, s, sm, sl) VALUES (2, '', '', {'a': 1}, [1, 2])", // the row has only static cells
		"UPDATE ks.t SET v = '' WHERE k = 1 AND j = 'a' AND c = 'z' AND d = 0",    // the row has no marker
		"INSERT INTO ks.t (k, j, c, d, l) VALUES (3, 'l', 'l', 0, ['one'])",
		"UPDATE ks.counts SET a = a + 5, b = b - 3 WHERE k = 1 AND c = 1",
		"UPDATE ks.counts SET s = s + 7 WHERE k = 1",
		"UPDATE ks.counts SET a = a + 0 WHERE k = 1 AND c = 2",
		"INSERT INTO ks.keys (a, b) VALUES (1, 2)",
		"INSERT INTO ks.dense (k, v) VALUES (1, 2) USING TIMESTAMP 5 AND TTL 1000")
}

// TestCopy checks that the schema and rows of every kind are copied with the timestamps of their cells. A verification
// must find no differences. Indexes, views, and functions must exist and work.
func TestCopy(t *testing.T) {
	p := twoServers(t, ilion.Options{InitialPartitions: 3})
	p.source.run(everything...)
	p.source.fill()
	p.Verify = true
	if rep := p.migrate(); rep.Tally.Source != 11 || rep.Tally.SourceDigest != rep.Tally.TargetDigest {
		t.Fatalf("%+v", rep)
	}
	p.same(cellTimes)
	for _, q := range []string{"SELECT k, c, s, a, b FROM ks.counts", "SELECT * FROM ks.keys",
		"SELECT k, v, writetime(v) FROM ks.dense", "SELECT * FROM ks.t WHERE v = 'later'",
		"SELECT ks.g(a) FROM ks.keys",
		"SELECT * FROM ks.mv"} {
		p.same(q)
	}
	for _, q := range []string{"SELECT ttl(v) FROM ks.t WHERE k = 1 AND j = 'a' AND c = 'x' AND d = 1.5",
		"SELECT ttl(v) FROM ks.dense"} {
		if strings.Contains(p.target.rows(q), "null") {
			t.Errorf("%s: the TTL is lost", q)
		}
	}
	if !strings.Contains(p.target.rows("SELECT ttl(du) FROM ks.t WHERE k = 1 AND j = 'a' AND c = 'x'"), "null") {
		t.Error("a cell without TTL has got the table's")
	}
}

// TestAgain checks that a repeated migration reuses the existing data and copies changes of values, elements, lists,
// static cells, and counters. Rows that were deleted in the source must also be deleted in the target. The exception
// is rows that another client has written.
func TestAgain(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run(everything...)
	p.source.fill()
	p.migrate()
	const row = " WHERE k = 1 AND j = 'a' AND c = 'x' AND d = 1.5"
	p.source.run("DELETE v, m['a'], l[0], du, u.x FROM ks.t"+row,
		"UPDATE ks.t SET se = se - {1}, m = m + {'z': 26}, fl = [1]"+row,
		"DELETE FROM ks.t WHERE k = 1 AND j = 'a' AND c = ''", // delete only the marker
		"DELETE FROM ks.t WHERE k = 3 AND j = 'l'",
		"DELETE s, sm FROM ks.t WHERE k = 2 AND j = ''",
		"UPDATE ks.t SET sl = [9] WHERE k = 2 AND j = ''",
		"UPDATE ks.counts SET a = a + 1, b = b - 1 WHERE k = 1 AND c = 1",
		"UPDATE ks.counts SET s = s - 70 WHERE k = 1",
		"DELETE FROM ks.counts WHERE k = 1 AND c = 2",
		"DELETE FROM ks.keys WHERE a = 1", "INSERT INTO ks.keys (a, b) VALUES (7, 7)",
		"UPDATE ks.dense SET v = 3 WHERE k = 1")
	p.Verify = true
	p.migrate()
	// If an element was removed from a list, the list is written again and has a later timestamp.
	p.same(strings.NewReplacer("sl, writetime(sl)", "sl", "l, writetime(l)", "l").Replace(cellTimes))
	p.same("SELECT k, c, s, a, b FROM ks.counts")
	p.same("SELECT * FROM ks.keys")
	p.same("SELECT * FROM ks.dense")

	// Another client writes to the target.
	p.target.run("INSERT INTO ks.keys (a, b) VALUES (100, 1)", "INSERT INTO ks.dense (k, v) VALUES (100, 1)",
		"UPDATE ks.dense SET v = 33 WHERE k = 1")
	p.Verify = false
	if rep := p.migrate(); rep.Tally.Kept != 2 || rep.Tally.Written != 0 {
		t.Errorf("%+v\n%s", rep, p.out.String())
	}
	p.VerifyOnly = true
	rep, err := migration.Run(t.Context(), p.Options)
	if err == nil || rep.Tally.Different < 2 || len(rep.Differences) != int(rep.Tally.Different) {
		t.Fatalf("%+v, %v", rep, err)
	}
	if text := fmt.Sprint(rep.Differences); !strings.Contains(text, "ks.dense k = 100 does not exist in the source") ||
		!strings.Contains(text, "{ks.dense k = 1 v has a different value}") {
		t.Errorf("%s", text)
	}
	p.Repair = true
	p.migrate()
	p.same("SELECT * FROM ks.dense")
	p.same("SELECT * FROM ks.keys")
}

// TestEnds checks a row that was deleted in the source and written again with cells that expire. After the cells have
// expired, the target must contain no data of the permanent row that was replaced.
func TestEnds(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run("CREATE TABLE ks.t (k int PRIMARY KEY, v int, w int)", "INSERT INTO ks.t (k, v, w) VALUES (1, 1, 1)",
		"INSERT INTO ks.t (k, v, w) VALUES (2, 1, 1)")
	p.migrate()
	p.source.run("DELETE FROM ks.t WHERE k = 1", "UPDATE ks.t USING TTL 1000 SET v = 2 WHERE k = 1",
		"UPDATE ks.t USING TTL 1000 SET v = 2 WHERE k = 2")
	p.migrate()
	p.same("SELECT k, v, writetime(v), w FROM ks.t")
	// Delete the cells as if they had expired.
	p.target.run("DELETE v FROM ks.t WHERE k = 1", "DELETE v, w FROM ks.t WHERE k = 2")
	if got := p.target.rows("SELECT k FROM ks.t"); got != "k=2 " {
		t.Errorf("remaining rows: %q", got)
	}
}

// TestRandom randomly writes and deletes a few keys with colliding timestamps. After every pass, both sides must
// return the same rows. A pass over equal data must write nothing.
func TestRandom(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run(`CREATE TABLE ks.t (k int, c int, s int static, v int, w text, m map<int, int>, se set<int>, l list<int>,
		PRIMARY KEY (k, c))`)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	one := func() string {
		n := random.IntN
		where := fmt.Sprintf(" WHERE k = %d AND c = %d", n(3), n(3))
		sets := []string{"v = %d", "w = '%d'", "m[%d] = 1", "se = se + {%d}", "se = se - {%d}", "l = l + [%d]",
			"m = {%d: 2}", "l = [%d, 1]", "v = null", "m = {}"}
		switch n(10) {
		case 0:
			return fmt.Sprintf("DELETE FROM ks.t WHERE k = %d", n(3))
		case 1:
			return "DELETE FROM ks.t" + where
		case 2:
			return fmt.Sprintf("UPDATE ks.t SET s = %d WHERE k = %d", n(5), n(3))
		case 3:
			return fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (%d, %d, %d)", n(3), n(3), n(9))
		case 4:
			return fmt.Sprintf("INSERT INTO ks.t (k, c) VALUES (%d, %d)", n(3), n(3))
		default:
			set := sets[n(len(sets))]
			if strings.Contains(set, "%d") {
				set = fmt.Sprintf(set, n(5))
			}
			return "UPDATE ks.t SET " + set + where
		}
	}
	for range 12 {
		for range random.IntN(30) {
			p.source.run(one())
		}
		p.migrate()
		p.same("SELECT k, c, s, writetime(s), v, writetime(v), w, writetime(w), m, writetime(m), se, writetime(se), l " +
			"FROM ks.t")
		if rep := p.migrate(); rep.Tally.Different != 0 {
			t.Fatalf("%+v", rep)
		}
	}
}

// TestResume checks that an interrupted migration resumes where it stopped. Counters and lists, which must not be
// written twice, must be correct at the end.
func TestResume(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run("CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)",
		"CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>)")
	const rows = 400
	for i := range rows {
		p.source.run(fmt.Sprintf("UPDATE ks.counts SET n = n + %d WHERE k = %d", i, i),
			fmt.Sprintf("INSERT INTO ks.lists (k, l) VALUES (%d, [%d, 1])", i, i))
	}
	for round := 1; ; round++ {
		ctx, cancel := context.WithCancel(t.Context())
		o := p.Options
		o.Rate = 800
		progress := &bulk.Progress{}
		o.Progress = func() *bulk.Progress { return progress }
		ended := make(chan error, 1)
		go func() {
			_, err := migration.Run(ctx, o)
			ended <- err
		}()
		eventually.True(t, "rows are copied", func() bool {
			return progress.Rows.Load() >= min(int64(round)*250, 2*rows) || len(ended) > 0
		})
		cancel()
		if err := <-ended; err == nil || round > 20 {
			break
		}
	}
	p.Verify = true
	p.migrate()
	p.same("SELECT * FROM ks.counts")
	p.same("SELECT l, writetime(l) FROM ks.lists")
	if !strings.Contains(p.out.String(), "resuming pass 1") {
		t.Errorf("the pass was not resumed:\n%s", p.out.String())
	}
}

// TestSchema checks that an error names each object that differs or cannot be created, and the reason. The error must
// occur before any rows are copied. A dry run must change nothing. A selection of tables must be respected.
func TestSchema(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run("CREATE TABLE ks.a (k int PRIMARY KEY, v int, w text)", "CREATE TABLE ks.b (k int PRIMARY KEY)",
		"CREATE INDEX by_w ON ks.a (w)", "INSERT INTO ks.a (k) VALUES (1)", "INSERT INTO ks.b (k) VALUES (1)")
	p.DryRun = true
	if p.migrate(); !strings.Contains(p.out.String(), "create    table ks.a") {
		t.Error(p.out.String())
	}
	if _, err := p.target.conn.Query("SELECT * FROM ks.a"); err == nil {
		t.Fatal("the dry run created a table")
	}
	p.DryRun = false
	p.target.run(keyspace, "CREATE TABLE ks.a (k int PRIMARY KEY, v text, x int)")
	_, err := migration.Run(t.Context(), p.Options)
	for _, want := range []string{"table ks.a: differs", "column v is int, regular in the source and text, regular in the target",
		"column w does not exist in the target", "column x does not exist in the source"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	if _, err := p.target.conn.Query("SELECT * FROM ks.b"); err == nil {
		t.Error("a table was created although another one cannot be created")
	}
	p.Select.Exclude = []bulk.Name{{Keyspace: "ks", Table: "a"}}
	p.Verify = true
	p.migrate()
	p.same("SELECT * FROM ks.b")
	p.Select.Tables = []bulk.Name{{Keyspace: "ks", Table: "nothing"}}
	_, err = migration.Run(t.Context(), p.Options)
	if err == nil || !strings.Contains(err.Error(), "to another import") {
		t.Errorf("%v", err)
	}
	p.Restart = true
	if _, err := migration.Run(t.Context(), p.Options); err == nil ||
		!strings.Contains(err.Error(), "table ks.nothing does not exist in the source") {
		t.Errorf("%v", err)
	}
}

// TestRoles checks that roles are copied with their passwords and permissions. The default superuser of Cassandra must
// not be copied, because its password is well known. Each side of the test has its own login.
func TestRoles(t *testing.T) {
	admin := func(name, hash string) (*server, rawclient.Options) {
		login := rawclient.Options{User: name, Password: "secret"}
		return serveTo(t, ilion.Options{Users: map[string]string{name: hash}}, login), login
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	source, _ := admin("here", string(hash))
	target, _ := admin("there", string(hash))
	p := &pair{source: source, target: target}
	p.Options = migration.Options{Source: source.Client, Target: target.Client, Out: &p.out, Roles: true,
		Checkpoint: filepath.Join(t.TempDir(), "checkpoint")}
	source.run(keyspace, "CREATE TABLE ks.t (k int PRIMARY KEY)", "CREATE TABLE ks.secret (k int PRIMARY KEY)",
		"CREATE ROLE readers", "GRANT SELECT ON TABLE ks.t TO readers",
		"CREATE ROLE \"Al\" WITH PASSWORD = 'her own' AND LOGIN = true", "GRANT readers TO \"Al\"",
		"CREATE ROLE cassandra WITH PASSWORD = 'cassandra' AND LOGIN = true AND SUPERUSER = true")
	p.migrate()
	c, err := rawclient.Dial(t.Context(), target.Addrs[0], rawclient.Options{User: "Al", Password: "her own"})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.out.String())
	}
	defer c.Close()
	if _, err := c.Query("SELECT * FROM ks.t"); err != nil {
		t.Error(err)
	}
	if _, err := c.Query("SELECT * FROM ks.secret"); err == nil {
		t.Error("a role has more permissions than in the source")
	}
	if strings.Contains(target.rows("SELECT role FROM system_auth.roles"), "'cassandra'") {
		t.Error("Cassandra's own superuser was copied")
	}
}

// TestUntimed checks that collections and changes to collections are copied from a source that does not return the
// timestamps of elements. Cassandra 4.0 is such a source.
func TestUntimed(t *testing.T) {
	p := twoServers(t, ilion.Options{Compatibility: "4.0"})
	p.source.run("CREATE TABLE ks.t (k int PRIMARY KEY, v int, m map<int, int>, l list<int>, se set<int>)",
		"INSERT INTO ks.t (k, v, m, l, se) VALUES (1, 1, {1: 1, 2: 2}, [1, 2], {1, 2}) USING TIMESTAMP 500",
		"INSERT INTO ks.t (k, m) VALUES (2, {1: 1})")
	p.Verify = true
	p.migrate()
	if got := p.target.rows("SELECT writetime(m) FROM ks.t WHERE k = 1"); !strings.Contains(got, "[500, 500]") {
		t.Errorf("the elements do not have the timestamp of their row: %s", got)
	}
	p.source.run("UPDATE ks.t SET m = m - {1}, m[2] = 5, l = l - [1], se = se + {3} WHERE k = 1")
	p.migrate()
	p.source.run("UPDATE ks.t SET m = m + {1: 7}, l = [4] WHERE k = 1", "DELETE FROM ks.t WHERE k = 2")
	p.migrate()
	p.same("SELECT * FROM ks.t")
	if !strings.Contains(p.out.String(), "does not return timestamps") {
		t.Error(p.out.String())
	}
}

// TestFollow checks that a migration with Follow copies changes while it runs. When its context is canceled, it must
// end without an error. With UntilEqual, the migration must end when both sides are equal.
func TestFollow(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run("CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "INSERT INTO ks.t (k, v) VALUES (1, 1)",
		"INSERT INTO ks.t (k, v) VALUES (2, 2)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := p.Options
	o.Follow, o.Pause = true, 1
	ended := make(chan error, 1)
	go func() {
		_, err := migration.Run(ctx, o)
		ended <- err
	}()
	has := func(want string) {
		t.Helper()
		eventually.True(t, want, func() bool {
			r, err := p.target.conn.Query("SELECT v FROM ks.t WHERE k = 1")
			return err == nil && r.RowCount == 1 && strings.Contains(p.target.rows("SELECT * FROM ks.t"), want)
		})
	}
	has("v=1")
	p.source.run("UPDATE ks.t SET v = 9 WHERE k = 1", "DELETE FROM ks.t WHERE k = 2")
	has("v=9")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	p.Follow, p.UntilEqual, p.Pause = true, true, 1
	if rep := p.migrate(); rep.Tally.Different != 0 {
		t.Errorf("%+v", rep)
	}
	p.same("SELECT * FROM ks.t")
}
