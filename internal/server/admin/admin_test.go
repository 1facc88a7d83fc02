// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/prometheus/client_golang/prometheus"
)

// TestPages checks the response of each page. The health checks of a failed node must return the status 503 and the
// reason.
func TestPages(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "ilion_test_total", Help: "x"})
	reg.MustRegister(c)
	c.Inc()
	node := new(fakeNode)
	srv := httptest.NewServer(Handler(Options{Health: node, Metrics: reg, Maintenance: node, Reports: node}, nil))
	defer srv.Close()
	for _, tc := range []struct {
		path string
		code int
		want string
	}{
		{"/healthz", 200, "ok"},
		{"/readyz", 200, "ok"},
		{"/metrics", 200, "ilion_test_total 1"},
		{"/status", 200, `"cluster": "secret"`},
		{"/", 200, "/healthz"},
		{"/nosuch", 404, ""},
	} {
		resp, err := http.Get(srv.URL + tc.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tc.code || !strings.Contains(string(body), tc.want) {
			t.Errorf("%s: got %d %q, want %d with %q", tc.path, resp.StatusCode, body, tc.code, tc.want)
		}
	}
	node.err = errors.New("the disk is broken")
	for _, path := range []string{"/healthz", "/readyz"} {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || !strings.Contains(string(body), "the disk is broken") {
			t.Errorf("%s of a failed node: %d %q", path, resp.StatusCode, body)
		}
	}
	node.reached = nil
	resp, err := http.Post(srv.URL+"/compact", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || !slices.Equal(node.reached, []string{"compact"}) {
		t.Errorf("POST /compact: %d, executed %q", resp.StatusCode, node.reached)
	}
}

// TestOrdersOfOtherSites checks that a page from another site in the operator's browser cannot run commands.
func TestOrdersOfOtherSites(t *testing.T) {
	node := new(fakeNode)
	srv := httptest.NewServer(Handler(Options{Metrics: prometheus.NewRegistry(), Nodes: node}, nil))
	defer srv.Close()
	for header, code := range map[string]int{"": 200, "http://elsewhere.example": 403} {
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/node/decommission?node=ab", nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set("Origin", header)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("origin %q: %d, want %d", header, resp.StatusCode, code)
		}
	}
	if !slices.Equal(node.reached, []string{"ab " + meta.Leaving.String()}) {
		t.Errorf("the executed commands are %q", node.reached)
	}
}

// TestHostNames checks that a request from this machine with an unknown host name is rejected. The check protects
// against DNS rebinding.
func TestHostNames(t *testing.T) {
	node := new(fakeNode)
	h := Handler(Options{Metrics: prometheus.NewRegistry(), Health: node, Reports: node}, new(Gate))
	for host, want := range map[string]int{
		"127.0.0.1:8080": 200, "[::1]:8080": 200, "localhost:8080": 200, "localhost": 200, "10.1.2.3": 200,
		"attacker.example:8080": 421, "attacker.example": 421, "": 421, "localhost.attacker.example": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/status", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:999", host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || strings.Contains(w.Body.String(), "secret") != (want == 200) {
			t.Errorf("%q: %d %q", host, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/status", nil)
	r.RemoteAddr, r.Host = "192.0.2.1:999", "node1.example:8080"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("from another machine, by name: %d %q", w.Code, w.Body)
	}
}
