// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// authFixture is a fixture with authentication. The node's configuration defines the role boss.
type authFixture struct {
	*fixture
	authority *Authority
	mu        sync.Mutex
	log       []string // audited requests
}

// AuditsAll implements Auditor.
func (w *authFixture) AuditsAll() bool { return true }

// Audit implements Auditor.
func (w *authFixture) Audit(a *AuditEntry, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, strings.Join([]string{a.Client.User, a.Type, a.Category, a.Keyspace, a.Table, a.Text}, "|"))
}

// ApplyRoles implements roles.Store.
func (w *authFixture) ApplyRoles(_ context.Context, c access.Change, actor string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, warnings, err := access.Apply(w.authority.State(), c, &access.Environment{
		Actor: actor, Datacenters: []string{"dc1"}, Configured: access.ConfiguredUsers{"boss": ""},
		Exists: func(r access.Resource) bool {
			s := w.catalog.Snapshot()
			return s.Keyspace(r.Keyspace) != nil && (r.Kind != access.Table || s.Table(r.Keyspace, r.Name) != nil)
		},
	})
	w.authority.Set(next)
	return warnings, err
}

func newAuthFixture(t testing.TB) *authFixture { return newAuthFixtureWith(t, false) }

// newAuthFixtureWith returns a fixture. If strict is true, a change of credentials ends sessions.
func newAuthFixtureWith(t testing.TB, strict bool) *authFixture {
	w := &authFixture{authority: NewAuthority("dc1", access.ConfiguredUsers{"boss": ""}, strict)}
	o := Options{Authority: w.authority, Roles: w, Auditor: w}
	w.fixture = newFixtureWith(t, o, func() catalog.NodeInfo {
		return catalog.NodeInfo{Metadata: meta.Empty().WithRoles(w.authority.State())}
	})
	w.client = w.as("boss")
	return w
}

func (w *authFixture) as(role string) *Session {
	return w.NewSession(Client{Version: 4, User: role, Remote: netip.MustParseAddrPort("10.0.0.1:4000")})
}

func (w *authFixture) answer(s *Session, text string) string {
	r := w.run(s, (*Session).Query, Request{Text: []byte(text)})
	if r.Err != nil {
		return r.Err.Error()
	}
	return strings.Join(r.Warnings, "; ")
}

// TestPermissions checks SE6 for every kind of statement and every entry point. A statement must be rejected if the
// role lacks the permission, and executed after the permission has been granted. Each line contains the statement, the
// permission, and the resource.
func TestPermissions(t *testing.T) {
	w := newAuthFixture(t)
	for _, text := range []string{
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ix ON ks.t (v)", "CREATE TYPE ks.ty (a int)",
		"CREATE ROLE low", "INSERT INTO ks.t (k, v) VALUES (1, 1)",
	} {
		if got := w.answer(w.client, text); got != "" {
			t.Fatalf("%s: %s", text, got)
		}
	}
	w.query(t, "ALTER ROLE low WITH LOGIN = true")
	low := w.as("low")
	const table, tables, keyspace = "TABLE ks.t", "ALL TABLES IN KEYSPACE ks", "KEYSPACE ks"
	texts := map[string]string{
		table: "<table ks.t>", tables: "<all tables in ks>", keyspace: "<keyspace ks>",
		"ALL KEYSPACES": "<all keyspaces>",
		"TABLE ks.new":  "<table ks.new>",
	}
	for _, test := range [][3]string{
		{"SELECT * FROM ks.t", "SELECT", table},
		{"SELECT JSON k FROM ks.t WHERE v = 1", "SELECT", table},
		{"INSERT INTO ks.t (k) VALUES (2)", "MODIFY", table},
		{"UPDATE ks.t SET v = 1 WHERE k = 1", "MODIFY", table},
		{"DELETE FROM ks.t WHERE k = 9", "MODIFY", table},
		{"BEGIN BATCH INSERT INTO ks.t (k) VALUES (2); INSERT INTO ks.t (k) VALUES (3) APPLY BATCH", "MODIFY", table},
		{"BEGIN TRANSACTION SELECT v FROM ks.t WHERE k = 1; COMMIT TRANSACTION", "SELECT", table},
		{"BEGIN TRANSACTION INSERT INTO ks.t (k) VALUES (2); COMMIT TRANSACTION", "MODIFY", table},
		{"EXPLAIN BEGIN TRANSACTION INSERT INTO ks.t (k) VALUES (2); COMMIT TRANSACTION", "MODIFY", table},
		{"EXPLAIN SELECT * FROM ks.t", "SELECT", table},
		{"EXPLAIN SELECT * FROM ks.t WHERE k = 1", "SELECT", table},
		{"EXPLAIN INSERT INTO ks.t (k) VALUES (2)", "MODIFY", table},
		{"EXPLAIN UPDATE ks.t SET v = 1 WHERE k = 1", "MODIFY", table},
		{"EXPLAIN DELETE FROM ks.t WHERE k = 9", "MODIFY", table},
		{"EXPLAIN BEGIN BATCH DELETE FROM ks.t WHERE k = 9; INSERT INTO ks.t (k) VALUES (3) APPLY BATCH", "MODIFY",
			table},
		{"TRUNCATE ks.t", "MODIFY", table},
		{"ALTER TABLE ks.t ADD w int", "ALTER", table},
		{"CREATE INDEX iw ON ks.t (w)", "ALTER", table},
		{"DROP INDEX ks.iw", "ALTER", table},
		{"CREATE TABLE ks.new (k int PRIMARY KEY)", "CREATE", tables},
		{"CREATE TYPE ks.ty2 (a int)", "CREATE", tables},
		{"ALTER TYPE ks.ty ADD b int", "ALTER", tables},
		{"DROP TYPE ks.ty2", "DROP", tables},
		{"DROP TABLE ks.new", "DROP", "TABLE ks.new"},
		{"ALTER KEYSPACE ks WITH durable_writes = true", "ALTER", keyspace},
		{"CREATE KEYSPACE ks2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE",
			"ALL KEYSPACES"},
	} {
		text, permission, resource := test[0], test[1], test[2]
		want := "User low has no " + permission + " permission on " + texts[resource] + " or any of its parents"
		if got := w.answer(low, text); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
		if r := w.run(low, (*Session).Prepare, Request{Text: []byte(text)}); r.Err != nil {
			t.Errorf("prepare %s: %v", text, r.Err)
		} else if r := w.run(low, (*Session).Execute, Request{ID: r.Prepared.ID}); r.Err == nil ||
			r.Err.Error() != want {
			t.Errorf("execute %s: %v", text, r.Err)
		}
		if verb, _, _ := strings.Cut(text, " "); permission == "MODIFY" && verb != "BEGIN" && verb != "EXPLAIN" &&
			verb != "TRUNCATE" {
			r := w.run(low, (*Session).Batch, Request{Statements: []BatchStatement{{Text: []byte(text)}}})
			if r.Err == nil || r.Err.Error() != want {
				t.Errorf("batch of %s: %v", text, r.Err)
			}
		}
		grant := permission + " ON " + resource
		if got := w.answer(w.client, "GRANT "+grant+" TO low"); got != "" {
			t.Fatalf("grant %s: %s", grant, got)
		}
		if got := w.answer(low, text); strings.HasPrefix(got, "User low") {
			t.Errorf("granted, %s: %s", text, got)
		}
		if resource != "TABLE ks.new" { // the last statement dropped this table
			w.query(t, "REVOKE "+grant+" FROM low")
		}
	}
	// A transaction that reads and writes requires both permissions. A conditional write also requires both
	// permissions, because its result contains stored values.
	const both = "BEGIN TRANSACTION LET a = (SELECT v FROM ks.t WHERE k = 1); IF a.v = 1 THEN " +
		"UPDATE ks.t SET v = 2 WHERE k = 1; END IF COMMIT TRANSACTION"
	w.query(t, "GRANT SELECT ON ks.t TO low")
	if got := w.answer(low, both); got != "User low has no MODIFY permission on <table ks.t> or any of its parents" {
		t.Errorf("a transaction that writes, with the right to read: %s", got)
	}
	w.query(t, "GRANT MODIFY ON ks.t TO low")
	if got := w.answer(low, both); strings.HasPrefix(got, "User low") {
		t.Errorf("a transaction with both rights: %s", got)
	}
	w.query(t, "REVOKE SELECT ON ks.t FROM low")
	want := "User low has no SELECT permission on <table ks.t> or any of its parents"
	for _, text := range []string{
		"UPDATE ks.t SET v = 1 WHERE k = 1 IF v = 2", "INSERT INTO ks.t (k) VALUES (1) IF NOT EXISTS",
		"BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); UPDATE ks.t SET v = 1 WHERE k = 1 IF v = 2 APPLY BATCH",
		both,
	} {
		for _, text := range []string{text, "EXPLAIN " + text} {
			if got := w.answer(low, text); got != want {
				t.Errorf("a condition: %s: %s", text, got)
			}
		}
	}
	for text, want := range map[string]string{
		"SELECT key FROM system.local":                      "",
		"SELECT keyspace_name FROM system_schema.keyspaces": "",
		"USE ks":              "",
		"DESCRIBE TABLE ks.t": "",
		"SELECT salted_hash FROM system_auth.roles": "User low has no SELECT permission on <table " +
			"system_auth.roles> or any of its parents",
		"SELECT * FROM system.batches": "User low has no SELECT permission on <table " +
			"system.batches> or any of its parents",
		"INSERT INTO system_auth.roles (role) VALUES ('x')": "User low has no MODIFY permission on <table " +
			"system_auth.roles> or any of its parents",
		"DELETE FROM system_auth.cidr_groups WHERE cidr_group = 'g'": "User low has no MODIFY permission on <table " +
			"system_auth.cidr_groups> or any of its parents",
	} {
		if got := w.answer(low, text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := w.answer(w.client,
		"INSERT INTO system_auth.roles (role) VALUES ('x')"); got != "system_auth keyspace is not user-modifiable." {
		t.Errorf("a superuser writes to the roles: %s", got)
	}
}

// TestRoleChangesAffectSessions checks that open sessions use the current state of the roles. Revoking a permission,
// removing LOGIN, and dropping a role must also affect statements that were prepared before the change.
func TestRoleChangesAffectSessions(t *testing.T) {
	w := newAuthFixture(t)
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	low := w.as("low")
	p := w.prepared(t, low, "SELECT * FROM ks.t")
	execute := func() string {
		if r := w.run(low, (*Session).Execute, Request{ID: p.ID}); r.Err != nil {
			return r.Err.Error()
		}
		return ""
	}
	const denied, gone = "User low has no SELECT permission on <table ks.t> or any of its parents",
		"You do not have access to this datacenter (dc1)"
	for _, step := range [][2]string{
		{"", denied},
		{"GRANT SELECT ON ks.t TO low", ""},
		{"REVOKE SELECT ON ks.t FROM low", denied},
		{"CREATE ROLE readers", denied},
		{"GRANT SELECT ON KEYSPACE ks TO readers", denied},
		{"GRANT readers TO low", ""},
		{"ALTER ROLE low WITH LOGIN = false", gone},
		{"ALTER ROLE low WITH LOGIN = true", ""},
		{"DROP ROLE readers", denied},
		{"INSERT INTO system_auth.cidr_groups (cidr_group, cidrs) VALUES ('far', {('10.9.0.0', 16)})", denied},
		{"GRANT SELECT ON ks.t TO low", ""},
		{"ALTER ROLE low WITH ACCESS FROM CIDRS {'far'}", "You do not have access from this IP 10.0.0.1"},
		{"INSERT INTO system_auth.cidr_groups (cidr_group, cidrs) VALUES ('far', {('10.0.0.7', 8)})", ""},
		{"DROP ROLE low", gone},
	} {
		if step[0] != "" {
			w.query(t, step[0])
		}
		if got := execute(); got != step[1] {
			t.Errorf("after %s: %q, want %q", step[0], got, step[1])
		}
	}
	if r := w.run(low, (*Session).Prepare, Request{Text: []byte("SELECT * FROM ks.t")}); r.Err == nil {
		t.Error("a dropped role prepares")
	}
}

// TestRecreatedRole checks that a session is bound to the role record instead of the role name. If a role is dropped
// and created again, the sessions of the dropped role must not receive permissions. In strict mode, a change of
// credentials must end sessions.
func TestRecreatedRole(t *testing.T) {
	const gone = "You do not have access to this datacenter (dc1)"
	for _, strict := range []bool{false, true} {
		changed := ""
		if strict {
			changed = gone
		}
		w := newAuthFixtureWith(t, strict)
		ask := func(s *Session) string { return w.answer(s, "LIST ROLES") }
		w.query(t, "CREATE ROLE low WITH PASSWORD = 'p' AND LOGIN = true")
		for _, step := range [][2]string{
			{"ALTER ROLE low WITH ACCESS TO ALL DATACENTERS", ""},
			{"ALTER ROLE low WITH LOGIN = true", ""},
			{"ALTER ROLE low WITH PASSWORD = 'p'", changed},
			{"ALTER ROLE low WITH LOGIN = false; ALTER ROLE low WITH LOGIN = true", changed},
			{"DROP ROLE low; CREATE ROLE low WITH PASSWORD = 'p' AND LOGIN = true AND SUPERUSER = true", gone},
		} {
			low := w.as("low")
			if got := ask(low); got != "" {
				t.Fatalf("before %s: %s", step[0], got)
			}
			for text := range strings.SplitSeq(step[0], "; ") {
				w.query(t, text)
			}
			if got := ask(low); got != step[1] {
				t.Errorf("strict %t: after %s: %q, want %q", strict, step[0], got, step[1])
			}
			login := low.client.Login()
			if ended := w.authority.Ended(&login); ended != (step[1] != "") {
				t.Errorf("strict %t: after %s the connection ends: %t", strict, step[0], ended)
			}
			if got := ask(w.as("low")); got != "" {
				t.Errorf("a new session after %s: %s", step[0], got)
			}
		}
	}
}

// TestAnonymous checks the results of role statements if authentication is off.
func TestAnonymous(t *testing.T) {
	w := newFixture(t, Options{})
	for _, text := range []string{"CREATE ROLE x", "LIST ROLES", "LIST USERS", "GRANT SELECT ON ALL KEYSPACES TO x",
		"LIST ALL PERMISSIONS", "DROP ROLE IF EXISTS x"} {
		if err := w.try(text); err == nil ||
			err.Error() != "You have to be logged in and not anonymous to perform this request" {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := w.try("INSERT INTO system_auth.cidr_groups (cidr_group, cidrs) VALUES ('far', {('10.9.0.0', 16)})"); err == nil {
		t.Error("anybody writes to the CIDR groups")
	}
}

// checkOf returns a function that checks the permissions for a prepared SELECT. The role has the permission because of
// a grant on a resource.
func checkOf(t testing.TB, granted string) (check func()) {
	t.Helper()
	w := newAuthFixture(t)
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	w.query(t, "GRANT SELECT ON "+granted+" TO low")
	low := w.as("low")
	st, err := w.parse([]byte("SELECT * FROM ks.t WHERE k = ?"), "")
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := low.check(st); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkCheck measures the permission check of a prepared statement for a role that is not a superuser.
func BenchmarkCheck(b *testing.B) {
	check := checkOf(b, "ks.t")
	b.ReportAllocs()
	for b.Loop() {
		check()
	}
}

// TestCheckAllocates checks that a successful permission check allocates no memory.
func TestCheckAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(100, checkOf(t, "KEYSPACE ks")); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestKeysRequirePermission checks that a role needs the SELECT permission to read a table of the keyspace ilion. Some
// of these tables contain keys of logical partitions. Permissions on the described tables are not sufficient.
func TestKeysRequirePermission(t *testing.T) {
	w := newAuthFixture(t)
	w.query(t, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	w.query(t, "GRANT ALL ON KEYSPACE ks TO low")
	low := w.as("low")
	names := 0
	for _, table := range w.catalog.Snapshot().Keyspace("ilion").SortedTables() {
		names++
		key := "'ks'"
		if table.PartitionKey[0].Type.Kind == cqltype.UUID {
			key = "00000000-0000-0000-0000-000000000001"
		}
		for _, text := range []string{"SELECT * FROM " + table.String(), "EXPLAIN SELECT * FROM " + table.String(),
			"SELECT count(*) FROM " + table.String() + " WHERE " + table.PartitionKey[0].Name + " = " + key} {
			want := "User low has no SELECT permission on <table " + table.String() + "> or any of its parents"
			if got := w.answer(low, text); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	}
	if names < 6 {
		t.Fatalf("keyspace ilion has %d tables", names)
	}
	w.query(t, "GRANT SELECT ON KEYSPACE ilion TO low")
	if got := w.answer(low, "SELECT * FROM ilion.hot_keys"); got != "" {
		t.Errorf("granted: %s", got)
	}
}
