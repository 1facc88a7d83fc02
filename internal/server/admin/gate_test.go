// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestGate checks which clients can read pages and run commands. If users are configured, the role must have the
// permission. Its password must not cross the network unencrypted. If no users are configured, commands must be
// accepted from the admin socket. If the node has no admin socket, commands from the same machine must be accepted.
func TestGate(t *testing.T) {
	state := &access.State{}
	for name, p := range map[string]access.Permissions{"nobody": 0, "watcher": access.Of(access.Select),
		"operator": access.Of(access.Select, access.Execute)} {
		state = state.WithRole(&access.Role{Name: name, Login: true, Grants: map[access.Resource]access.Permissions{
			{Kind: access.AllMBeans}: p}})
	}
	login := func(_ context.Context, _ netip.Addr, name, password string) (*access.Subject, error) {
		if password != "right" {
			return nil, &dberr.BadCredentials{Message: "wrong"}
		}
		return state.Resolve(name, name == "root"), nil
	}
	const near, far = "127.0.0.1:999", "192.0.2.1:999"
	for _, c := range []struct {
		name           string
		gate           *Gate
		from           string
		encrypted      bool
		role, password string
		health         int
		see, do        int // status of GET /status and of POST /compact
	}{
		{"socket", nil, "@", false, "", "", 200, 200, 200},
		{"no users, no socket, near", &Gate{}, near, false, "", "", 200, 200, 200},
		{"no users, no socket, mapped", &Gate{}, "[::ffff:127.0.0.1]:9", false, "", "", 200, 200, 200},
		{"no users, no socket, far", &Gate{}, far, false, "", "", 200, 200, 403},
		{"no users, a socket, near", &Gate{Socket: "s"}, near, false, "", "", 200, 200, 403},
		{"no users, a socket, far", &Gate{Socket: "s"}, far, false, "", "", 200, 200, 403},
		{"no password", &Gate{Login: login}, near, false, "", "", 200, 401, 401},
		{"a wrong one", &Gate{Login: login}, near, false, "root", "wrong", 200, 401, 401},
		{"superuser", &Gate{Login: login}, near, false, "root", "right", 200, 200, 200},
		{"in clear", &Gate{Login: login}, far, false, "root", "right", 200, 403, 403},
		{"over TLS", &Gate{Login: login}, far, true, "root", "right", 200, 200, 200},
		{"without rights", &Gate{Login: login}, near, false, "nobody", "right", 200, 403, 403},
		{"may look", &Gate{Login: login}, near, false, "watcher", "right", 200, 200, 403},
		{"may order", &Gate{Login: login}, near, false, "operator", "right", 200, 200, 200},
		{"open page", &Gate{Login: login, Open: []string{"status"}}, far, false, "", "", 200, 200, 401},
	} {
		node := new(fakeNode)
		h := Handler(Options{Metrics: prometheus.NewRegistry(), Health: node, Reports: node, Maintenance: node}, c.gate)
		for page, want := range map[string]int{"GET /healthz": c.health, "GET /status": c.see, "POST /compact": c.do} {
			method, path, _ := strings.Cut(page, " ")
			r := httptest.NewRequest(method, path, nil)
			r.RemoteAddr, r.Host = c.from, "127.0.0.1:8080"
			if c.encrypted {
				r.TLS = &tls.ConnectionState{}
			}
			if c.role != "" {
				r.SetBasicAuth(c.role, c.password)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want || w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %s: %d %q, want %d", c.name, path, w.Code, w.Body, want)
			}
			if told := w.Header().Get(SocketHeader); told != "" && (c.from == far || w.Code == 200) {
				t.Errorf("%s: %s: the response names the socket %s", c.name, path, told)
			}
		}
		if slices.Contains(node.reached, "compact") != (c.do == http.StatusOK) {
			t.Errorf("%s: %q was executed", c.name, node.reached)
		}
	}
}

// TestKeysAreGuarded checks that pages that name logical partitions require a permission, even if other pages are
// open. The reason is that keys are data. Canceling a session must require the permission to run commands. The open
// status page must not show keys to clients that have not logged in.
func TestKeysAreGuarded(t *testing.T) {
	state := (&access.State{}).WithRole(&access.Role{Name: "nobody", Login: true}).WithRole(&access.Role{
		Name: "watcher", Login: true,
		Grants: map[access.Resource]access.Permissions{{Kind: access.AllMBeans}: access.Of(access.Select)}})
	gate := &Gate{Open: []string{"metrics", "status", "history"},
		Login: func(_ context.Context, _ netip.Addr, name, _ string) (*access.Subject, error) {
			return state.Resolve(name, name == "root"), nil
		}}
	node := new(fakeNode)
	h := Handler(Options{Metrics: prometheus.NewRegistry(), Reports: node, Advisor: node, Diagnostics: node}, gate)
	for _, page := range []string{"/usage", "/usage?table=ks.t", "/usage/history", "/advise?table=ks.t",
		"/status", "/table?table=ks.t", "/ring", "/endpoints?keyspace=sec&table=ret&key=k&key=l",
		"/sessions", "/sessions?limit=5", "/slow"} {
		for role, want := range map[string]int{"": 401, "nobody": 403, "root": 200} {
			if page == "/status" {
				want = 200
			}
			r := httptest.NewRequest("GET", page, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:999", "127.0.0.1:8080"
			if role != "" {
				r.SetBasicAuth(role, "p")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if told := strings.Contains(w.Body.String(), "secret"); w.Code != want || told != (role == "root") {
				t.Errorf("%s as %q: %d %q, want %d", page, role, w.Code, w.Body, want)
			}
		}
	}
	for role, want := range map[string]int{"": 401, "nobody": 403, "watcher": 403, "root": 200} {
		r := httptest.NewRequest("POST", "/sessions/cancel?id="+role, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:999", "127.0.0.1:8080"
		if role != "" {
			r.SetBasicAuth(role, "p")
		}
		w := httptest.NewRecorder()
		node.reached = nil
		if h.ServeHTTP(w, r); w.Code != want || slices.Contains(node.reached, "cancel "+role) != (want == 200) {
			t.Errorf("canceled by %q: %d %q, executed %q", role, w.Code, w.Body, node.reached)
		}
	}
}
