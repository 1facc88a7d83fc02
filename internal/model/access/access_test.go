// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func yes[T any](v T) *T { return &v }

// fixture is a state with an environment. In the environment, boss is a configured user and the table ks.t exists.
type fixture struct {
	t     *testing.T
	state *State
}

func (w *fixture) environment(actor string) *Environment {
	return &Environment{
		Actor: actor, Datacenters: []string{"dc1"}, Configured: ConfiguredUsers{"boss": ""},
		Exists: func(r Resource) bool {
			return r.Keyspace == "ks" && (r.Name == "" || r.Name == "t") || protected(r.Keyspace)
		},
	}
}

// do applies a change and returns the error or the warnings that the client receives.
func (w *fixture) do(actor string, c Change) string {
	next, warnings, err := Apply(w.state, c, w.environment(actor))
	w.state = next
	if err != nil {
		return err.Error()
	}
	return strings.Join(warnings, "; ")
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{t: t, state: (&State{}).WithRole(&Role{Name: "boss", Login: true, Superuser: true, Configured: true})}
	for _, name := range []string{"low", "other", "group", "wide"} {
		w.must("boss", &CreateRole{Name: name, Attributes: Attributes{Login: yes(true)}})
	}
	w.must("boss", &CreateRole{Name: "su", Attributes: Attributes{Superuser: yes(true)}})
	return w
}

func (w *fixture) must(actor string, c Change) {
	w.t.Helper()
	if got := w.do(actor, c); got != "" {
		w.t.Fatalf("%T: %s", c, got)
	}
}

const (
	privileges = " does not have sufficient privileges to perform the requested operation"
	ownStatus  = "You aren't allowed to alter your own superuser status or that of a role granted to you"
)

// TestRefusals checks the error texts of rejected changes, and the precedence of errors.
func TestRefusals(t *testing.T) {
	w := newFixture(t)
	w.must("boss", &GrantRole{Role: "group", Grantee: "low"})
	table := OfTable("ks", "t")
	for _, test := range []struct {
		actor string
		c     Change
		want  string
	}{
		{"boss", &CreateRole{Name: "low"}, "low already exists"},
		{"boss", &CreateRole{Name: "low", IfNotExists: true}, ""},
		{"boss", &CreateRole{Name: "boss"}, "boss already exists"},
		{"boss", &CreateRole{}, "Role name can't be an empty string"},
		{"boss", &CreateRole{Name: "x", Attributes: Attributes{Options: true}},
			"org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS"},
		{"boss", &CreateRole{Name: "x", Attributes: Attributes{Hash: yes("bad"), Hashed: true}},
			"Invalid hashed password value. Please use jBcrypt."},
		{"boss", &CreateRole{Name: "x", Attributes: Attributes{Datacenters: &[]string{"dc1", "dc2"}}},
			"Invalid value(s) for DATACENTERS '[dc1, dc2]',All values must be valid datacenters"},
		{"boss", &CreateRole{Name: "x", Attributes: Attributes{Groups: &[]string{"g"}}},
			"Invalid CIDR group(s): [g]. Available CIDR Groups are: []"},
		{"low", &CreateRole{Name: "x", Attributes: Attributes{Options: true}}, "User low" + privileges},
		{"gone", &CreateRole{Name: "x"}, "User gone" + privileges},
		{"boss", &AlterRole{Name: "low"}, "ALTER [ROLE|USER] can't be empty"},
		{"boss", &AlterRole{Name: "none", Attributes: Attributes{Login: yes(true)}}, "Role none doesn't exist"},
		{"boss", &AlterRole{Name: "none", IfExists: true, Attributes: Attributes{Login: yes(true)}}, ""},
		{"boss", &AlterRole{Name: "boss", Attributes: Attributes{Superuser: yes(false)}}, ownStatus},
		{"boss", &AlterRole{Name: "boss", Attributes: Attributes{Hash: yes("h")}},
			"Role boss is defined in the configuration: change its password there. It always has LOGIN and SUPERUSER"},
		{"low", &AlterRole{Name: "other", Attributes: Attributes{Hash: yes("h")}}, "User low" + privileges},
		{"low", &AlterRole{Name: "low", Attributes: Attributes{Hash: yes("h")}}, ""},
		{"low", &AlterRole{Name: "low", Attributes: Attributes{Login: yes(false)}},
			"You aren't allowed to alter LOGIN"},
		{"low", &AlterRole{Name: "low", Attributes: Attributes{Options: true}}, "You aren't allowed to alter OPTIONS"},
		{"low", &AlterRole{Name: "low", Attributes: Attributes{Low: yes(false)}},
			"You aren't allowed to alter OPTIONS"},
		{"low", &AlterRole{Name: "group", Attributes: Attributes{Superuser: yes(true)}}, ownStatus},
		{"low", &AlterRole{Name: "other", Attributes: Attributes{Superuser: yes(true)}},
			"Only superusers are allowed to alter superuser status"},
		{"low", &AlterRole{Name: "low", Attributes: Attributes{Datacenters: &[]string{}}},
			"Only superusers are allowed to alter access to datacenters."},
		{"low", &AlterRole{Name: "low", Attributes: Attributes{Groups: &[]string{}}},
			"Only superusers are allowed to alter access from CIDR groups."},
		{"low", &DropRole{Name: "none", IfExists: true}, "User low" + privileges},
		{"boss", &DropRole{Name: "none"}, "none doesn't exist"},
		{"boss", &DropRole{Name: "none", IfExists: true}, ""},
		{"boss", &DropRole{Name: "boss"}, "Cannot DROP primary role for current login"},
		{"su", &DropRole{Name: "boss"}, "boss is defined in the configuration: remove it there first"},
		{"low", &GrantRole{Role: "other", Grantee: "low"}, "User low" + privileges},
		{"boss", &GrantRole{Role: "group", Grantee: "low"}, "low is a member of group"},
		{"boss", &GrantRole{Role: "low", Grantee: "group"}, "low is a member of group"},
		{"boss", &GrantRole{Role: "low", Grantee: "low"}, "low is a member of low"},
		{"boss", &GrantRole{Role: "none", Grantee: "low"}, "none doesn't exist"},
		{"boss", &GrantRole{Role: "low", Grantee: "none"}, "none doesn't exist"},
		{"boss", &GrantRole{Revoke: true, Role: "other", Grantee: "low"}, "low is not a member of other"},
		{"boss", &Grant{Permissions: Of(Select), On: OfTable("ks", "none"), Role: "low"},
			"Resource <table ks.none> doesn't exist"},
		{"boss", &Grant{Permissions: Of(Alter), On: OfRole("none"), Role: "low"}, "Resource <role none> doesn't exist"},
		{"boss", &Grant{Permissions: Of(Select), On: table, Role: "none"}, "Role none doesn't exist"},
		{"boss", &Grant{Permissions: Of(Select), On: OfTable("system", "local"), Role: "low"}, ""},
		{"boss", &Grant{Permissions: Of(Modify), On: OfKeyspace("system"), Role: "low"},
			"Granting permissions on system keyspaces is strictly limited, this operation is not permitted"},
		{"low", &Grant{Permissions: Of(Select), On: table, Role: "other"},
			"User low has no AUTHORIZE permission on <table ks.t> or any of its parents"},
		{"boss", &Grant{Permissions: Of(Authorize), On: table, Role: "low"}, ""},
		{"low", &Grant{Permissions: Of(Select), On: table, Role: "other"},
			"User low has no SELECT permission on <table ks.t> or any of its parents"},
		{"boss", &Grant{Permissions: Of(Select, Authorize), On: table, Role: "low"},
			"Role 'low' was already granted AUTHORIZE on <table ks.t>"},
		{"low", &Grant{Permissions: Of(Select), On: table, Role: "other"}, ""},
		{"boss", &Grant{Revoke: true, Permissions: data, On: table, Role: "low"},
			"Role 'low' was not granted ALTER, DROP, MODIFY, UNMASK, SELECT_MASKED on <table ks.t>"},
		{"low", &SetGroup{Name: "g"},
			"User low has no MODIFY permission on <table system_auth.cidr_groups> or any of its parents"},
		{"boss", &AddIdentity{Identity: "spiffe://a", Role: "none"},
			"Can not add identity for non-existent role 'none'"},
		{"boss", &AddIdentity{Role: "low"}, "Key may not be empty"},
		{"boss", &DropIdentity{Identity: "spiffe://a"}, "identity 'spiffe://a' doesn't exist"},
		{"boss", &DropIdentity{Identity: "spiffe://a", IfExists: true}, ""},
	} {
		if got := w.do(test.actor, test.c); got != test.want {
			t.Errorf("%s: %T%+v:\n got %s\nwant %s", test.actor, test.c, test.c, got, test.want)
		}
	}
}

// TestLesserSuperusers checks that a role with CREATE, DROP, and AUTHORIZE on all roles can neither create nor drop
// superusers.
func TestLesserSuperusers(t *testing.T) {
	w := newFixture(t)
	w.must("boss", &Grant{Permissions: Of(Create, Drop, Alter), On: Resource{Kind: AllRoles}, Role: "low"})
	for _, test := range []struct {
		c    Change
		want string
	}{
		{&CreateRole{Name: "x", Attributes: Attributes{Superuser: yes(true)}},
			"Only superusers can create a role with superuser status"},
		{&DropRole{Name: "su"}, "Only superusers can drop a role with superuser status"},
		{&AlterRole{Name: "other", Attributes: Attributes{Superuser: yes(true)}},
			"Only superusers are allowed to alter superuser status"},
		{&AddIdentity{Identity: "i", Role: "su"},
			"Only superusers can add an identity to a role with superuser status"},
		{&CreateRole{Name: "mine"}, ""},
		{&Grant{Permissions: Of(Alter), On: OfRole("mine"), Role: "other"}, ""},
	} {
		if got := w.do("low", test.c); got != test.want {
			t.Errorf("%T: got %q, want %q", test.c, got, test.want)
		}
	}
	if got, want := w.state.Role("low").Grants[OfRole("mine")], Of(Alter, Drop, Authorize, Describe); got != want {
		t.Errorf("the creator of a role has %s on it, want %s", got, want)
	}
}

// TestDropRole checks that dropping a role removes all grants on it and all its memberships (AC4).
func TestDropRole(t *testing.T) {
	w := newFixture(t)
	w.must("boss", &GrantRole{Role: "group", Grantee: "low"})
	w.must("boss", &Grant{Permissions: Of(Alter), On: OfRole("group"), Role: "other"})
	w.must("boss", &AddIdentity{Identity: "i", Role: "group"})
	w.must("boss", &AddIdentity{Identity: "i", Role: "group", IfNotExists: true})
	w.must("boss", &DropRole{Name: "group"})
	s := w.state
	if s.Role("group") != nil || len(s.Role("low").MemberOf) > 0 || len(s.Role("other").Grants) > 0 ||
		s.Identity("i") != "" {
		t.Errorf("a dropped role left references: %+v, %+v, %q", s.Role("low"), s.Role("other"), s.Identity("i"))
	}
	if w.state.Role("boss").Grants[OfRole("group")] != 0 {
		t.Error("the creator still has permissions on a dropped role")
	}
}

// TestMay checks that permissions apply to contained resources, and that members inherit them. The test also checks
// that a grant on all keyspaces excludes the server's own keyspaces (AC3).
func TestMay(t *testing.T) {
	w := newFixture(t)
	w.must("boss", &GrantRole{Role: "group", Grantee: "low"})
	w.must("boss", &Grant{Permissions: Of(Select), On: OfTable("ks", "t"), Role: "group"})
	w.must("boss", &Grant{Permissions: Of(Modify), On: OfKeyspace("ks"), Role: "low"})
	w.must("boss", &Grant{Permissions: Of(Create), On: OfTables("ks"), Role: "low"})
	w.must("boss", &Grant{Permissions: data, On: Resource{Kind: AllKeyspaces}, Role: "wide"})
	w.must("boss", &Grant{Permissions: Of(Drop), On: Resource{Kind: AllRoles}, Role: "low"})
	low, wide := w.state.Resolve("low", false), w.state.Resolve("wide", false)
	for _, test := range []struct {
		who  *Subject
		p    Permission
		on   Resource
		want bool
	}{
		{low, Select, OfTable("ks", "t"), true},
		{low, Select, OfTable("ks", "u"), false},
		{low, Select, OfKeyspace("ks"), false},
		{low, Modify, OfTable("ks", "u"), true},
		{low, Modify, OfTables("ks"), true},
		{low, Modify, OfTable("ks2", "t"), false},
		{low, Create, OfTables("ks"), true},
		{low, Create, OfKeyspace("ks"), false},
		{low, Drop, OfRole("x"), true},
		{wide, Select, OfTable("any", "t"), true},
		{wide, Select, OfTable("ks", "t"), true},
		{wide, Select, OfTable("system_auth", "roles"), false},
		{wide, Alter, OfKeyspace("system_auth"), false},
		{wide, Select, OfTable("system_views", "clients"), true},
		{wide, Create, Resource{Kind: AllKeyspaces}, false},
		{w.state.Resolve("boss", true), Drop, OfKeyspace("ks"), true},
		{w.state.Resolve("unknown", false), Select, OfTable("ks", "t"), false},
	} {
		if got := test.who.May(test.p, test.on); got != test.want {
			t.Errorf("%s: %s on %s: %v", test.who.Name, test.p, test.on, got)
		}
	}
	w.must("boss", &GrantRole{Role: "su", Grantee: "group"})
	if !w.state.Resolve("low", false).May(Drop, OfKeyspace("ks")) {
		t.Error("an indirect member of a superuser is not a superuser")
	}
	// Dropping a resource removes all grants on it.
	s := w.state.WithoutGrantsOn(func(r Resource) bool { return r.Keyspace == "ks" })
	if got := s.Role("group").Grants; len(got) > 0 {
		t.Errorf("left after a keyspace was dropped: %v", got)
	}
}

// TestAdmit checks that a role is served only in its data centers and to clients at its addresses.
func TestAdmit(t *testing.T) {
	w := newFixture(t)
	at := netip.MustParseAddr
	w.must("boss", &SetGroup{Name: "office", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"),
		netip.MustParsePrefix("2001:db8::/32")}})
	w.must("boss", &AlterRole{Name: "low", Attributes: Attributes{Groups: &[]string{"office"}}})
	w.must("boss", &AlterRole{Name: "other", Attributes: Attributes{Datacenters: &[]string{"dc1"}}})
	w.must("boss", &AlterRole{Name: "wide", Attributes: Attributes{Login: yes(false)}})
	for _, test := range []struct{ role, dc, from, want string }{
		{"low", "dc1", "10.1.2.3", ""},
		{"low", "dc1", "::ffff:10.1.2.3", ""},
		{"low", "dc1", "2001:db8::5", ""},
		{"low", "dc2", "10.1.2.3", ""},
		{"low", "dc1", "10.2.0.1", "You do not have access from this IP 10.2.0.1"},
		{"other", "dc1", "10.2.0.1", ""},
		{"other", "dc2", "10.2.0.1", "You do not have access to this datacenter (dc2)"},
		{"wide", "dc1", "10.2.0.1", "You do not have access to this datacenter (dc1)"},
		{"dropped", "dc1", "10.2.0.1", "You do not have access to this datacenter (dc1)"},
		{"boss", "dc7", "10.2.0.1", ""},
	} {
		got := ""
		if err := w.state.Resolve(test.role, test.role == "boss").Admit(test.dc, at(test.from)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s in %s from %s: %q, want %q", test.role, test.dc, test.from, got, test.want)
		}
	}
	// Removing a group does not lift the restriction of its roles.
	w.must("boss", &SetGroup{Name: "office"})
	if w.state.Resolve("low", false).Admit("dc1", at("10.1.2.3")) == nil {
		t.Error("a role is served from anywhere after its CIDR group was removed")
	}
}

// TestHashes checks which password hashes are accepted. Checking a password must not take hours.
func TestHashes(t *testing.T) {
	const good = "$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG"
	for hash, ok := range map[string]bool{
		good: true, "$2b$04$" + good[7:]: true, "$2a$14$" + good[7:]: true, "$2a$15$" + good[7:]: false,
		"$2a$31$" + good[7:]: false,
		"$2a$3/$" + good[7:]: false, "$2a$03$" + good[7:]: false, "$1a$10$" + good[7:]: false, good[:59]: false,
		good + "x": false, "": false,
		good[:59] + "\x00": false,
	} {
		if err := CheckHash(hash); (err == nil) != ok {
			t.Errorf("%s: %v", hash, err)
		}
	}
}

// TestTexts checks the results of String and Path for resources.
func TestTexts(t *testing.T) {
	var got []string
	for _, r := range []Resource{
		{Kind: AllKeyspaces}, OfKeyspace("ks"), OfTables("ks"), OfTable("ks", "t"), {Kind: AllRoles}, OfRole("r"),
		{Kind: AllFunctions},
		OfFunctions("ks"), {Kind: Function, Keyspace: "ks", Name: "f", Args: "int, text"}, {Kind: AllMBeans},
		{Kind: MBean, Name: "a:b=c"},
	} {
		got = append(got, fmt.Sprintf("%s %s %s %d", r, r.Path(), r.Applicable(), len(r.Within())))
	}
	want := []string{
		"<all keyspaces> data CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE, UNMASK, SELECT_MASKED 1",
		"<keyspace ks> data/ks CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE, UNMASK, SELECT_MASKED 2",
		"<all tables in ks> data/ks/* CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE, UNMASK, SELECT_MASKED 3",
		"<table ks.t> data/ks/t ALTER, DROP, SELECT, MODIFY, AUTHORIZE, UNMASK, SELECT_MASKED 4",
		"<all roles> roles CREATE, ALTER, DROP, AUTHORIZE, DESCRIBE 1",
		"<role r> roles/r ALTER, DROP, AUTHORIZE, DESCRIBE 2",
		"<all functions> functions CREATE, ALTER, DROP, AUTHORIZE, EXECUTE 1",
		"<all functions in ks> functions/ks CREATE, ALTER, DROP, AUTHORIZE, EXECUTE 2",
		"<function ks.f(int, text)> functions/ks/f[int^text] ALTER, DROP, AUTHORIZE, EXECUTE 3",
		"<all mbeans> mbean SELECT, MODIFY, AUTHORIZE, DESCRIBE, EXECUTE 1",
		"<mbean a:b=c> mbean/a:b=c SELECT, MODIFY, AUTHORIZE, DESCRIBE, EXECUTE 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestInvariants makes random changes. The test encodes and decodes the changed records, and checks that they produce
// the next state. Memberships must contain no cycle (AC2).
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &fixture{state: (&State{}).WithRole(&Role{Name: "boss", Superuser: true})}
		read := &State{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", ""})
		on := rapid.SampledFrom([]Resource{OfTable("ks", "t"), OfKeyspace("ks"), OfRole("a"), {Kind: AllRoles},
			{Kind: AllKeyspaces}})
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			var c Change
			switch rapid.IntRange(0, 7).Draw(t, "kind") {
			case 0, 1:
				c = &CreateRole{Name: name.Draw(t, "name"),
					Attributes: Attributes{Login: yes(rapid.Bool().Draw(t, "login")), Hash: yes("h")}}
			case 2:
				c = &DropRole{Name: name.Draw(t, "name")}
			case 3, 4:
				c = &GrantRole{Role: name.Draw(t, "role"), Grantee: name.Draw(t, "grantee"),
					Revoke: rapid.IntRange(0, 3).Draw(t, "revoke") == 0}
			case 5:
				r := on.Draw(t, "on")
				c = &Grant{On: r, Permissions: r.Applicable() & Permissions(rapid.Uint32().Draw(t, "set")),
					Role:   name.Draw(t, "name"),
					Revoke: rapid.IntRange(0, 3).Draw(t, "revoke") == 0}
			case 6:
				c = &SetGroup{Name: name.Draw(t, "name"),
					CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}[:rapid.IntRange(0, 1).Draw(t, "n")]}
			case 7:
				c = &AddIdentity{Identity: name.Draw(t, "identity"), Role: name.Draw(t, "name")}
			}
			old := w.state
			w.do("boss", c)
			next, err := read.WithRecords(Changed(old, w.state))
			if err != nil {
				t.Fatal(err)
			}
			if read = next; len(Changed(old, w.state)) == 0 && old != w.state {
				t.Logf("%T changed nothing", c)
			}
			for _, r := range w.state.Roles() {
				for _, granted := range r.MemberOf {
					if slices.Contains(w.state.Memberships(granted), r.Name) {
						t.Fatalf("%s is a member of itself", r.Name)
					}
				}
			}
		}
		// The role boss existed before the changes.
		whole, err := (&State{}).WithRecords(w.state.Records())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.state.Records(), whole.Records()); diff != "" {
			t.Fatalf("records read again (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(w.state.WithoutRole("boss").Records(), read.WithoutRole("boss").Records()); diff != "" {
			t.Fatalf("followed (-want +got):\n%s", diff)
		}
	})
}

// TestRecordsOfLaterBuilds checks that fields from later builds are preserved. Errors must name unknown formats and
// resources.
func TestRecordsOfLaterBuilds(t *testing.T) {
	r := &Role{Name: "r", Login: true, Hash: "h", MemberOf: []string{"a"}, Low: true,
		ID: RoleID{1, 15: 2}, Credentials: 300,
		Grants: map[Resource]Permissions{OfTable("ks", "t"): Of(Select)}}
	b := r.Append(nil)
	b = append(b[:len(b)-1], 0x0e, 2, 'x', 'y', 0) // add one more field before the end
	got, err := DecodeRole("r", b)
	if err != nil {
		t.Fatal(err)
	}
	if again := got.Append(nil); string(again) != string(b) || !got.Low || got.Version() != r.Version() {
		t.Errorf("a later build's field was lost:\n got %x\nwant %x", again, b)
	}
	for name, bad := range map[string][]byte{"format": {9}, "empty": {}, "cut": b[:len(b)-6]} {
		if _, err := DecodeRole("r", bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	r.Grants = map[Resource]Permissions{{Kind: kindCount}: 1}
	if _, err := DecodeRole("r", r.Append(nil)); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a kind of a later build: %v", err)
	}
}

// BenchmarkMay measures the permission check of one statement.
func BenchmarkMay(b *testing.B) {
	s := (&State{}).WithRole(&Role{Name: "r",
		Grants: map[Resource]Permissions{OfTable("some_keyspace", "some_table"): Of(Select)}}).Resolve("r", false)
	on := OfTable("some_keyspace", "some_table")
	b.ReportAllocs()
	for b.Loop() {
		if !s.May(Select, on) {
			b.Fatal("denied")
		}
	}
}

func FuzzDecodeRole(f *testing.F) {
	f.Add((&Role{Hash: "h", MemberOf: []string{"a"},
		Grants: map[Resource]Permissions{OfTable("ks", "t"): 5}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRole("r", b)
		if err != nil {
			return
		}
		if again, err := DecodeRole("r", r.Append(nil)); err != nil || !cmp.Equal(r.Append(nil), again.Append(nil)) {
			t.Fatalf("%v: %x", err, b)
		}
	})
}
