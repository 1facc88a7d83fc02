// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/audit"
)

// TestAuditLog checks that a node records successful logins, failed logins, and requests. The requests include HTTP
// requests. The log must be in the data directory, and only its owner may be able to read it.
func TestAuditLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	n, err := Start(t.Context(), Options{Data: dir, CQL: "127.0.0.1:0", HTTP: "off",
		REST:  options.REST{Address: "127.0.0.1:0"},
		Auth:  options.Auth{Users: map[string]string{"app": hash(t, "s3cret")}},
		Audit: audit.Options{Enabled: true, ExcludedCategories: "QUERY"}})
	if err != nil {
		t.Fatal(err)
	}
	as := func(password string) func(*gocql.ClusterConfig) {
		return func(c *gocql.ClusterConfig) {
			c.Authenticator = gocql.PasswordAuthenticator{Username: "app", Password: password}
		}
	}
	if _, err := logIn(n.CQLAddr().String(), as("guess")); err == nil {
		t.Error("a login with a wrong password succeeded")
	}
	if _, err := logIn(n.CQLAddr().String(), as("s3cret")); err != nil {
		t.Error(err)
	}
	stranger, err := http.Get("http://" + n.RESTAddr().String() + "/dbs/d")
	if err != nil {
		t.Fatal(err)
	}
	_ = stranger.Body.Close()
	newClientAs(t, n, "app").query("CREATE ROLE low WITH PASSWORD = 'hush'")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, auditDir, "audit.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"user:app|host:127.0.0.1:", "|source:/127.0.0.1|",
		"|type:LOGIN_ERROR|category:AUTH|outcome:0x0100|",
		"|type:LOGIN_ERROR|category:AUTH|ks:d|outcome:401|operation:GET /dbs/d\n",
		"|type:LOGIN_SUCCESS|category:AUTH|outcome:ok|",
		"|type:CREATE_ROLE|category:DCL|outcome:ok|operation:CREATE ROLE low WITH PASSWORD *******\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in %s", want, b)
		}
	}
	for _, no := range []string{"hush", "guess", "s3cret", "category:QUERY"} {
		if strings.Contains(string(b), no) {
			t.Errorf("%q is in the log", no)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
