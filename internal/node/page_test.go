// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
)

// explore sends a statement to the explorer and returns the status code and the page.
func explore(t *testing.T, n *Node, user, statement string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+n.HTTPAddr().String()+"/ui/explore",
		strings.NewReader(url.Values{"statement": {statement}, "keyspace": {"ks"}, "do": {"run"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if user != "" {
		r.SetBasicAuth(user, user)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestExplorer checks that the explorer executes statements. It must show values and errors as text. A browser that
// requests the root must be redirected to the page.
func TestExplorer(t *testing.T) {
	n := startNode(t, Options{HTTP: "127.0.0.1:0"})
	for _, step := range []struct{ statement, want string }{
		{"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATED KEYSPACE ks"},
		{"CREATE TABLE t (k text PRIMARY KEY, v map<text, int>)", "CREATED TABLE ks t"},
		{"INSERT INTO t (k, v) VALUES ('<b>', {'a': 1})", "Done."},
		{"SELECT * FROM t;", "<td>{&#39;a&#39;: 1}</td>"},
		{"SELECT k FROM t;", "<td>&lt;b&gt;</td>"},
		{"SELECT nothing FROM t", "Undefined column name nothing"},
		{"", "no viable alternative at input"},
	} {
		if code, body := explore(t, n, "", step.statement); code != 200 || !strings.Contains(body, step.want) {
			t.Errorf("%s: %d, no %q in\n%s", step.statement, code, step.want, body)
		}
	}
	r, _ := http.NewRequest(http.MethodGet, "http://"+n.HTTPAddr().String()+"/", nil)
	r.Header.Set("Accept", "text/html")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/ui/" {
		t.Errorf("a browser at the root: %d %s", resp.StatusCode, resp.Header.Get("Location"))
	}
}

// TestExplorerOfRoles checks that the explorer executes only statements that the authenticated role may execute. The
// other views must reject a role that has no permission for them.
func TestExplorerOfRoles(t *testing.T) {
	n := startNode(t, Options{HTTP: "127.0.0.1:0",
		Auth: options.Auth{Users: map[string]string{"boss": hash(t, "boss")}}})
	for _, statement := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE t (k int PRIMARY KEY)", "CREATE TABLE secret (k int PRIMARY KEY)",
		"CREATE ROLE ann WITH LOGIN = true AND PASSWORD = 'ann'", "GRANT SELECT ON TABLE ks.t TO ann",
	} {
		if code, body := explore(t, n, "boss", statement); code != 200 || strings.Contains(body, `class="error"`) {
			t.Fatalf("%s: %d\n%s", statement, code, body)
		}
	}
	for _, tc := range []struct {
		user, statement string
		code            int
		want            string
	}{
		{"ann", "SELECT * FROM t", 200, "0 rows"},
		{"ann", "SELECT * FROM secret", 200, "no SELECT permission"},
		{"", "SELECT * FROM t", 401, ""},
		{"nobody", "SELECT * FROM t", 401, ""},
	} {
		if code, body := explore(t, n, tc.user, tc.statement); code != tc.code || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %s: %d, want %d with %q\n%s", tc.user, tc.statement, code, tc.code, tc.want, body)
		}
	}
	for user, want := range map[string]int{"ann": 403, "boss": 200} {
		for _, view := range []string{"/ui/", "/ui/storage", "/ui/heat", "/ui/changes"} {
			r, _ := http.NewRequest(http.MethodGet, "http://"+n.HTTPAddr().String()+view, nil)
			r.SetBasicAuth(user, user)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s at %s: %d, want %d", user, view, resp.StatusCode, want)
			}
		}
	}
}
