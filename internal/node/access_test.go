// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/ilion-db/ilion/internal/node/options"
	"golang.org/x/crypto/bcrypt"
)

// startNode starts an in-memory node on free ports. Options in o have precedence.
func startNode(t *testing.T, o Options) *Node {
	t.Helper()
	if o.CQL == "" {
		o.CQL = "127.0.0.1:0"
	}
	if o.HTTP == "" {
		o.HTTP = "off"
	}
	o.Memory.Budget = 256 << 20
	withTestLimits(&o)
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// logIn connects with the Go driver and returns the rpc_address of the node.
func logIn(addr string, change func(*gocql.ClusterConfig)) (rpc net.IP, err error) {
	cluster := gocql.NewCluster(addr)
	cluster.ConnectTimeout, cluster.Timeout = 30*time.Second, 30*time.Second
	cluster.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1}
	if change != nil {
		change(cluster)
	}
	s, err := cluster.CreateSession()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	err = s.Query("SELECT rpc_address FROM system.local").Scan(&rpc)
	return rpc, err
}

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// TestPasswords checks that only configured users can log in. It uses cached passwords and passwords that are not
// cached. Unknown users and wrong passwords must result in the same error.
func TestPasswords(t *testing.T) {
	n := startNode(t, Options{Auth: options.Auth{Users: map[string]string{"app": hash(t, "s3cret"),
		"other": hash(t, "öther")}}})
	addr := n.CQLAddr().String()
	as := func(user, password string) func(*gocql.ClusterConfig) {
		return func(c *gocql.ClusterConfig) {
			c.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
		}
	}
	for range 2 { // the second round uses cached passwords
		for _, who := range [][2]string{{"app", "s3cret"}, {"other", "öther"}} {
			if _, err := logIn(addr, as(who[0], who[1])); err != nil {
				t.Errorf("%s: %v", who[0], err)
			}
		}
		for _, who := range [][3]string{{"app", "wrong"}, {"app", "öther"}, {"nobody", "s3cret"},
			{"app", "", "Password must not be null"}, {"", "s3cret", "Authentication ID must not be null"}} {
			_, err := logIn(addr, as(who[0], who[1]))
			if want := cmp.Or(who[2], "Provided username "+who[0]+" and/or password are incorrect"); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%q with %q: got %v, want %q", who[0], who[1], err, want)
			}
		}
	}
	if _, err := logIn(addr, nil); err == nil {
		t.Error("a client without credentials logged in")
	}
	if got := n.info.Settings["authenticator"]; got != "PasswordAuthenticator" {
		t.Errorf("the authenticator in the settings is %s", got)
	}
	for name, value := range n.info.Settings {
		if strings.Contains(value, "$2") {
			t.Errorf("setting %s contains a password hash", name)
		}
	}
}

// TestBadHash checks that the node does not start with an invalid password hash.
func TestBadHash(t *testing.T) {
	_, err := Start(t.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off",
		Auth: options.Auth{Users: map[string]string{"app": "s3cret"}}})
	want := `auth.users: the hash of user "app" is not a bcrypt hash. Create a hash with ilion hash-password`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// authority is a certificate authority.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign(name, nil)
	return a
}

// sign creates a certificate that is valid for an hour and writes it to name.pem and name.key.
func (a *authority) sign(name string, ips []net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	return a.signUntil(name, ips, time.Now().Add(time.Hour))
}

// signUntil works like sign, but the certificate is valid until the given time. The certificate is valid from two
// hours before that time, or from an hour before now if that time is earlier.
func (a *authority) signUntil(name string, ips []net.IP, until time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	from := time.Now().Add(-time.Hour)
	if before := until.Add(-2 * time.Hour); before.Before(from) {
		from = before
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		IPAddresses: ips, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage, template.ExtKeyUsage = true, true,
			x509.KeyUsageCertSign, nil
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", pkcs8)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// client returns the TLS configuration of a client. If name is not empty, the client has a certificate.
func (a *authority) client(name string) *tls.Config {
	c := &tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1"}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func withTLS(c *tls.Config) func(*gocql.ClusterConfig) {
	return func(o *gocql.ClusterConfig) { o.SslOpts = &gocql.SslOptions{Config: c} }
}

// TestTLS checks that CQL and HTTP accept only TLS if the node has a certificate. With tls.client_ca, only clients
// with a certificate from that authority can connect.
func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	ca.sign("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	ca.sign("app", nil)
	stranger.sign("app", nil)
	impostor := ca.client("")
	impostor.Certificates = stranger.client("app").Certificates

	files := options.TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}
	mutual := files
	mutual.ClientCA = ca.path("ca.pem")
	for _, c := range []struct {
		name   string
		server options.TLS
		client *tls.Config
		ok     bool
	}{
		{"one-sided", files, ca.client(""), true},
		{"one-sided, client has a certificate", files, ca.client("app"), true},
		{"client does not know the authority", files, stranger.client(""), false},
		{"client speaks plain CQL", files, nil, false},
		{"mutual", mutual, ca.client("app"), true},
		{"mutual, client has no certificate", mutual, ca.client(""), false},
		{"mutual, client has one of another authority", mutual, impostor, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := startNode(t, Options{HTTP: "127.0.0.1:0", TLS: c.server})
			change := func(o *gocql.ClusterConfig) { o.ConnectTimeout = time.Second }
			transport := &http.Transport{TLSClientConfig: c.client}
			defer transport.CloseIdleConnections()
			if c.client != nil {
				change = withTLS(c.client)
			}
			if _, err := logIn(n.CQLAddr().String(), change); (err == nil) != c.ok {
				t.Errorf("CQL: %v, want success %v", err, c.ok)
			}
			scheme := "https://"
			if c.client == nil {
				scheme = "http://"
			}
			r, err := (&http.Client{Transport: transport}).Get(scheme + n.HTTPAddr().String() + "/healthz")
			ok := err == nil && r.StatusCode == http.StatusOK
			if err == nil {
				r.Body.Close()
			}
			if ok != c.ok {
				t.Errorf("HTTP: %v, want success %v", err, c.ok)
			}
		})
	}
}

// TestTLSFiles checks that the node does not start if TLS files are missing or invalid. The error must name the
// option.
func TestTLSFiles(t *testing.T) {
	ca := newAuthority(t, "ca")
	for want, o := range map[string]options.TLS{
		"tls.cert and tls.key must be set together": {Cert: ca.path("ca.pem")},
		"tls.cert and tls.key: open ":               {Cert: ca.path("nope.pem"), Key: ca.path("ca.key")},
		"tls.client_ca: open ": {Cert: ca.path("ca.pem"), Key: ca.path("ca.key"),
			ClientCA: ca.path("nope.pem")},
		"tls.client_ca: no certificate in ": {Cert: ca.path("ca.pem"), Key: ca.path("ca.key"),
			ClientCA: ca.path("ca.key")},
		"tls.client_ca requires tls.cert and tls": {ClientCA: ca.path("ca.pem")},
	} {
		_, err := Start(t.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off", TLS: o})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestListeningBeyondLoopback checks the addresses on which a node without authentication refuses to listen.
func TestListeningBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		name      string
		cql, http string
		change    func(*Options)
		refused   bool
	}{
		{"loopback", "127.0.0.1:0", "127.0.0.1:0", nil, false},
		{"by name", "localhost:0", "off", nil, false},
		{"all addresses", "0.0.0.0:0", "off", nil, true},
		{"no address", ":0", "off", nil, true},
		{"all addresses, version 6", "[::]:0", "off", nil, true},
		{"a name", "example.com:0", "off", nil, true},
		{"HTTP", "127.0.0.1:0", "0.0.0.0:0", nil, true},
		{"with users", "0.0.0.0:0", "0.0.0.0:0", func(o *Options) {
			o.Auth.Users = map[string]string{"a": hash(t, "b")}
		}, false},
		{"insecure", "0.0.0.0:0", "0.0.0.0:0", func(o *Options) { o.Insecure = true }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{CQL: c.cql, HTTP: c.http}
			if c.change != nil {
				c.change(&o)
			}
			n, err := Start(t.Context(), o)
			if err == nil {
				err = n.Close()
			}
			if c.refused != (err != nil && strings.HasPrefix(err.Error(), "refusing to listen on ")) || !c.refused &&
				err != nil {
				t.Errorf("got %v, want refusal %v", err, c.refused)
			}
		})
	}
}

// TestAddressOfTheNode checks a node that listens on all addresses. The node must report to each client the address to
// which the client connected. Drivers identify nodes by this address.
func TestAddressOfTheNode(t *testing.T) {
	n := startNode(t, Options{CQL: "0.0.0.0:0", Insecure: true})
	_, port, err := net.SplitHostPort(n.CQLAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		rpc, err := logIn(net.JoinHostPort(host, port), nil)
		if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && host != "127.0.0.1" {
			t.Skipf("%s: %v", host, err) // some systems have only one loopback address
		}
		if err != nil || rpc.String() != host {
			t.Errorf("the client dialed %s and received the address %v (%v)", host, rpc, err)
		}
	}
}
