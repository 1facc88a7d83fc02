// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/tls"
	"math/big"
	"net"
	"os"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// shownSerial returns the serial number of the certificate that a server presents.
func shownSerial(t *testing.T, address string) *big.Int {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

// TestCertificatesAreReadAgain checks that CQL and HTTP clients receive a new certificate without a restart. This must
// happen after Reload and after the certificate files have changed. If the new certificate is invalid, clients must
// still receive the previous certificate.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	ca.sign("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	n := startNode(t, Options{HTTP: "127.0.0.1:0", TLS: options.TLS{Cert: ca.path("server.pem"),
		Key: ca.path("server.key")}})
	addresses := []string{n.CQLAddr().String(), n.HTTPAddr().String()}
	put := func(name string) *big.Int {
		c, _ := ca.sign(name, []net.IP{net.IPv4(127, 0, 0, 1)})
		for _, ending := range []string{".key", ".pem"} {
			if err := os.Rename(ca.path(name+ending), ca.path("server"+ending)); err != nil {
				t.Fatal(err)
			}
		}
		return c.SerialNumber
	}
	for _, told := range []bool{true, false} {
		want := put("next")
		if told {
			if err := n.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range addresses {
			eventually.True(t, "the new certificate is shown", func() bool { return shownSerial(t, a).Cmp(want) == 0 })
		}
	}
	before := shownSerial(t, addresses[0])
	if err := os.WriteFile(ca.path("server.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(); err == nil {
		t.Error("Reload accepted a broken certificate")
	}
	for _, a := range addresses {
		if shownSerial(t, a).Cmp(before) != 0 {
			t.Error("the server no longer presents the previous certificate")
		}
	}
}

// TestCertificatesStandForRoles checks that a client whose certificate maps to a role acts as that role without a
// password. A client whose certificate maps to no role must give a password in optional mode and must be rejected in
// required mode. A certificate must no longer map to its role after the identity has been dropped.
func TestCertificatesStandForRoles(t *testing.T) {
	ca := newAuthority(t, "ca")
	ca.sign("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	for _, name := range []string{"app", "other"} {
		ca.sign(name, nil)
	}
	for _, mode := range []string{"optional", "required"} {
		n := startNode(t, Options{
			TLS:  options.TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key"), ClientCA: ca.path("ca.pem")},
			Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}, Certificates: mode},
		})
		boss := newClientAs(t, n, "boss")
		in := func(certificate, password string) bool {
			_, err := logIn(n.CQLAddr().String(), func(o *gocql.ClusterConfig) {
				withTLS(ca.client(certificate))(o)
				if password != "" {
					o.Authenticator = gocql.PasswordAuthenticator{Username: "boss", Password: password}
				}
			})
			return err == nil
		}
		for _, step := range []struct {
			statement, certificate, password string
			in                               bool
		}{
			{"CREATE ROLE low WITH LOGIN = true", "app", "", false},
			{"ADD IDENTITY 'CN=app' TO ROLE low", "app", "", true},
			{"", "other", "", false},
			{"", "other", "b", mode == "optional"},
			{"", "", "b", mode == "optional"},
			{"ALTER ROLE low WITH LOGIN = false", "app", "", false},
			{"ALTER ROLE low WITH LOGIN = true", "app", "", true},
			{"DROP IDENTITY 'CN=app'", "app", "", false},
		} {
			if step.statement != "" {
				boss.query(step.statement)
			}
			if got := in(step.certificate, step.password); got != step.in {
				t.Errorf("%s: after %q, with certificate %q and password %q: logged in: %v", mode, step.statement,
					step.certificate, step.password, got)
			}
		}
	}
}
