// SPDX-License-Identifier: Apache-2.0

package mutate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// publicTargets returns the targets that untrusted clients can reach. These targets are statements about roles, the
// HTTP endpoints, and the handshake of nodes.
func publicTargets() []target {
	return []target{
		{"statements about roles", roleTexts(), executeRoles},
		{"HTTP requests", httpRequests(), serveHTTP},
		{"the join handshake", handshakes(), shakeHands},
	}
}

// fuzz runs a target as a native fuzz target.
func fuzz(f *testing.F, name string) {
	for _, tg := range publicTargets() {
		if tg.name != name {
			continue
		}
		for _, b := range tg.seeds {
			f.Add(b)
		}
		run := tg.run()
		f.Fuzz(func(t *testing.T, b []byte) {
			if why := run(b); why != "" {
				t.Error(why)
			}
		})
	}
}

// FuzzRoles checks that statements about roles do not panic or give permissions to a role without permissions. The
// resulting state must not differ from its records.
func FuzzRoles(f *testing.F) { fuzz(f, "statements about roles") }

// FuzzHTTP checks that no request can change the node or read protected data without the required permission.
func FuzzHTTP(f *testing.F) { fuzz(f, "HTTP requests") }

// FuzzJoin checks that a peer that has not proven the secret cannot complete the handshake with a node. The peer must
// receive no information about the cluster.
func FuzzJoin(f *testing.F) { fuzz(f, "the join handshake") }

func roleTexts() (out [][]byte) {
	for _, text := range []string{
		"CREATE ROLE IF NOT EXISTS \"Conf_D\" WITH LOGIN = true AND SUPERUSER = FALSE; GRANT \"Conf_D\" TO low",
		"CREATE ROLE a WITH HASHED PASSWORD = '$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG'; " +
			"DROP ROLE a",
		"CREATE ROLE r WITH ACCESS TO DATACENTERS {'dc1'} AND ACCESS FROM CIDRS {'office'}; ALTER ROLE r WITH ACCESS " +
			"FROM ALL CIDRS AND ACCESS TO ALL DATACENTERS",
		"ALTER ROLE low WITH HASHED PASSWORD = '$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG'",
		"CREATE USER IF NOT EXISTS 'x y' SUPERUSER; ALTER USER 'x y' NOSUPERUSER; LIST USERS; DROP USER 'x y'",
		"CREATE ROLE a; CREATE ROLE b; GRANT a TO b; GRANT b TO other; REVOKE a FROM b; LIST ROLES OF b NORECURSIVE",
		"GRANT SELECT, MODIFY ON TABLE ks.t TO low; LIST ALL PERMISSIONS OF low; REVOKE ALL ON ALL KEYSPACES FROM low",
		"GRANT ALL ON ALL TABLES IN KEYSPACE ks TO other; LIST SELECT ON ks.t OF other NORECURSIVE; LIST ROLES",
		"GRANT EXECUTE ON ALL MBEANS TO low; GRANT SELECT ON MBEANS 'org.x:*' TO low; GRANT ALTER ON ROLE other TO low",
		"GRANT EXECUTE ON FUNCTION ks.f(int, text) TO low; GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE ks TO low",
		"ADD IDENTITY 'spiffe://a/b' TO ROLE low; ADD IDENTITY IF NOT EXISTS 'x' TO ROLE other; DROP IDENTITY 'x'",
		"ALTER ROLE low WITH SUPERUSER = true; ALTER ROLE boss WITH LOGIN = false; DROP ROLE boss; DROP ROLE low",
		"GRANT UNMASK ON t TO low; GRANT SELECT MASKED ON KEYSPACE ks TO low; REVOKE AUTHORIZE ON ALL ROLES FROM low",
	} {
		out = append(out, []byte(text))
	}
	return out
}

// roleFixture is a store of roles. One role executes statements in the store.
type roleFixture struct {
	state  *access.State
	schema *schema.Schema
	*roles.Executor
}

// newRoleFixture returns a fixture with the state s.
func newRoleFixture(s *access.State) *roleFixture {
	w := &roleFixture{state: s, schema: schema.New()}
	w.Executor = roles.New(w)
	return w
}

// startRoles returns the initial state for each input.
func startRoles() *access.State {
	return (&access.State{}).WithRole(&access.Role{Name: "boss", Login: true, Superuser: true}).
		WithRole(&access.Role{Name: "low", Login: true}).WithGroup(&access.Group{Name: "office"}).
		WithRole(&access.Role{Name: "other",
			Grants: map[access.Resource]access.Permissions{access.OfTable("ks", "t"): access.Of(access.Select)}}).
		WithIdentity("spiffe://a/low", "low")
}

// ApplyRoles implements roles.Store.
func (w *roleFixture) ApplyRoles(_ context.Context, c access.Change, actor string) ([]string, error) {
	next, warnings, err := access.Apply(w.state, c, &access.Environment{
		Actor: actor, Datacenters: []string{"dc1"},
		Exists: func(r access.Resource) bool { return r.Keyspace == "ks" },
	})
	w.state = next
	return warnings, err
}

// ask executes a statement as a role. ask returns a description of a wrong error, or "".
func (w *roleFixture) ask(who, text string, tree parser.Statement) string {
	_, _, err := w.Execute(context.Background(), &roles.Request{Statement: tree, Text: text,
		Subject: w.state.Resolve(who, false), State: w.state, Schema: w.schema})
	if err != nil && !strings.HasPrefix(fmt.Sprintf("%T", err), "*dberr.") {
		return fmt.Sprintf("rejected with %T: %v", err, err)
	}
	return ""
}

// executeRoles executes the statements as low, which has no permissions, and as boss, which has all permissions. Each
// role has a separate fixture.
func executeRoles() func([]byte) string {
	start := startRoles()
	low, boss := newRoleFixture(start), newRoleFixture(start)
	return func(b []byte) string {
		low.state, boss.state = start, start
		for text := range strings.SplitSeq(string(b), ";") {
			tree, _, err := parser.Parse(text)
			if err != nil || !roles.Handles(tree) || !plain(tree) {
				continue
			}
			if why := low.ask("low", text, tree) + boss.ask("boss", text, tree); why != "" {
				return why
			}
		}
		for key := range access.Changed(start, low.state) {
			r := low.state.Role("low")
			if key != "role/low" || r == nil || r.Superuser || len(r.Grants)+len(r.MemberOf) > 0 {
				return "a role without permissions changed " + key
			}
		}
		return kept(boss.state, start)
	}
}

// plain reports whether a statement contains no password that must be hashed. Hashing would make the test too slow.
func plain(tree parser.Statement) bool {
	switch s := tree.(type) {
	case *parser.CreateRole:
		return s.Options.Password == nil
	case *parser.AlterRole:
		return s.Options.Password == nil
	}
	return true
}

// kept compares a state with the state that followers derive from its records.
func kept(s, from *access.State) string {
	changed, records := access.Changed(from, s), s.Records()
	followed, err := from.WithRecords(changed)
	if err != nil {
		return "its changes cannot be applied: " + err.Error()
	}
	if !reflect.DeepEqual(followed.Records(), records) {
		return "applying the changes results in another state"
	}
	return ""
}

func httpRequests() (out [][]byte) {
	const boss, low = "Ym9zczpyaWdodA==", "bG93OnJpZ2h0" // the password of each user is "right"
	for _, text := range []string{
		"GET /status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + low + "\r\n\r\n",
		"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " + boss +
			"\r\nContent-Length: 3\r\n\r\nabc",
		"POST /node/decommission?node=abcd HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Basic " + boss + "\r\n\r\n",
		"POST /compact HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\nSec-Fetch-Site: cross-site\r\nAuthorization: Basic " +
			boss + "\r\n\r\n",
		"POST //upgrade HTTP/1.0\r\n\r\n", "POST /x/../upgrade HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://b/debug/pprof/?seconds=x HTTP/1.1\r\nHost: a\r\nAuthorization: Basic " + low + "\r\n\r\n",
		"GET /metrics?name[]=x HTTP/1.1\r\nHost:\r\nAccept-Encoding: gzip\r\nAccept: text/plain;version=0.0.4\r\n\r\n",
		"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "PUT /%63ompact HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /node/resume?node=%zz&node=1;2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
			"Authorization: Basic " + boss + "\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"GET /readyz HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
	} {
		out = append(out, append([]byte{0}, text...), append([]byte{1}, text...))
	}
	return out
}

// operatedNode records what requests read and execute.
type operatedNode struct {
	admin.Reports
	seen, done string
}

func (n *operatedNode) Err() error { return nil }

func (n *operatedNode) Status() admin.Status {
	n.seen = "status"
	return admin.Status{}
}

func (n *operatedNode) order(what string) string {
	n.done = what
	return what
}

func (n *operatedNode) Compact(context.Context) error {
	n.order("compact")
	return nil
}

func (n *operatedNode) Checkpoint() (string, error) { return n.order("checkpoint"), nil }

func (n *operatedNode) RaiseLevel(context.Context) (feature.Level, error) {
	n.order("upgrade")
	return 0, nil
}

func (n *operatedNode) SetState(_ context.Context, _ string, to meta.NodeState) (string, error) {
	return n.order(to.String()), nil
}

// serveHTTP serves requests. The first byte of an input determines the origin of the request.
func serveHTTP() func([]byte) string {
	looks := map[access.Resource]access.Permissions{{Kind: access.AllMBeans}: access.Of(access.Select)}
	state := startRoles().WithRole(&access.Role{Name: "low", Login: true, Grants: looks})
	node := new(operatedNode)
	h := admin.Handler(admin.Options{Health: node, Metrics: prometheus.NewRegistry(), Reports: node, Maintenance: node,
		Nodes: node,
	}, &admin.Gate{Login: func(_ context.Context, _ netip.Addr, name, password string) (*access.Subject, error) {
		if password != "right" || state.Role(name) == nil {
			return nil, &dberr.BadCredentials{Message: "wrong"}
		}
		return state.Resolve(name, false), nil
	}})
	from := [...]string{"127.0.0.1:9", "192.0.2.1:9", "[::1]:9", "@"}
	return func(b []byte) string {
		if len(b) == 0 {
			return ""
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[1:])))
		if err != nil {
			return ""
		}
		node.seen, node.done, r.RemoteAddr = "", "", from[b[0]%4]
		name, password, _ := r.BasicAuth()
		site := r.Header.Get("Sec-Fetch-Site")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case node.done != "" && (name != "boss" || password != "right" || r.Method != http.MethodPost):
			return fmt.Sprintf("%q by %s of %q", node.done, r.Method, name)
		case node.done != "" && (site == "cross-site" || site == "same-site"):
			return node.done + " because of a page of another site"
		case node.seen != "" && (password != "right" || name != "boss" && name != "low"):
			return fmt.Sprintf("%q is disclosed to %q", node.seen, name)
		case w.Code >= 500 && w.Code != http.StatusNotImplemented:
			return fmt.Sprintf("returned status %d", w.Code)
		}
		return ""
	}
}
