// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"
)

// uriScheme and uriNode are parts of the URI in a node's certificate, which has the form ilion:node/<32 hexadecimal
// digits>.
const (
	uriScheme = "ilion"
	uriNode   = "node/"
)

// NodeURI returns the URI that identifies a node in its certificate, as a subject alternative name.
func NodeURI(node NodeID) *url.URL {
	return &url.URL{Scheme: uriScheme, Opaque: uriNode + hex.EncodeToString(node[:])}
}

// NodeOf returns the node ID in a certificate.
func NodeOf(c *x509.Certificate) (node NodeID, ok bool) {
	for _, u := range c.URIs {
		id, found := strings.CutPrefix(u.Opaque, uriNode)
		if b, err := hex.DecodeString(id); u.Scheme == uriScheme && found && err == nil && len(b) == len(node) {
			return NodeID(b), true
		}
	}
	return NodeID{}, false
}

// names reports whether the certificate contains the node ID.
func names(c *x509.Certificate, node NodeID) bool {
	want := NodeURI(node).String()
	for _, u := range c.URIs {
		if u.String() == want {
			return true
		}
	}
	return false
}

// Validity is the validity period of a certificate.
type Validity struct {
	// From is the start of the period. If From is zero, the start is one hour ago, to allow for clock differences.
	From time.Time
	// For is the length of the period. The default is ten years for an authority and one year for a node.
	For time.Duration
}

func (v Validity) span(length time.Duration) (from, until time.Time) {
	if v.From.IsZero() {
		v.From = time.Now().Add(-time.Hour)
	}
	setDefault(&v.For, length)
	return v.From, v.From.Add(v.For)
}

const year = 365 * 24 * time.Hour

// Authority signs the certificates of the nodes of one cluster. The key of the authority should be kept offline,
// because the key is sufficient to join the cluster.
type Authority struct {
	certificate *x509.Certificate
	key         ed25519.PrivateKey
}

// NewAuthority generates a key and a self-signed certificate.
func NewAuthority(name string, v Validity) (*Authority, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate authority key: %w", err)
	}
	from, until := v.span(10 * year)
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	return &Authority{certificate: c, key: private}, nil
}

// LoadAuthority loads an authority from the output of PEM.
func LoadAuthority(certificate, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("load authority: %w", err)
	}
	c, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("load authority: %w", err)
	}
	private, ok := pair.PrivateKey.(ed25519.PrivateKey)
	if !ok || !c.IsCA {
		return nil, errors.New("load authority: expected the certificate and the ed25519 key of an authority")
	}
	return &Authority{certificate: c, key: private}, nil
}

// PEM returns the certificate and the key. Every node needs the certificate, but nodes do not need the key.
func (a *Authority) PEM() (certificate, key []byte, err error) {
	return encodePair(a.certificate.Raw, a.key)
}

// Issue signs a certificate for a node. The certificate is valid for both ends of a connection. hosts contains host
// names and addresses for tools that check host names. Nodes do not check hosts.
func (a *Authority) Issue(node NodeID, hosts []string, v Validity) (certificate, key []byte, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate node key: %w", err)
	}
	from, until := v.span(year)
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "ilion node " + hex.EncodeToString(node[:])},
		NotBefore: from, NotAfter: until, URIs: []*url.URL{NodeURI(node)}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of node %x: %w", node, err)
	}
	return encodePair(der, private)
}

func encodePair(der []byte, key ed25519.PrivateKey) (certificate, private []byte, err error) {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Read never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// TLSConfig returns the TLS configuration of a node from the PEM data of its authority, its certificate, and its key.
func TLSConfig(authority, certificate, key []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("load node certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("load authority: the file contains no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		MinVersion: tls.VersionTLS13}, nil
}

// sides returns the TLS configurations of the dialing and the accepting side.
func sides(c *tls.Config) (client, server *tls.Config, err error) {
	if c == nil {
		return nil, nil, nil
	}
	if c.RootCAs == nil {
		return nil, nil, errors.New("transport: Options.TLS has no RootCAs: nodes trust only their own authority")
	}
	if len(c.Certificates) == 0 && (c.GetCertificate == nil || c.GetClientCertificate == nil) {
		return nil, nil, errors.New("transport: Options.TLS has no certificate")
	}
	server = c.Clone()
	server.MinVersion = tls.VersionTLS13
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.GetConfigForClient = nil // GetConfigForClient would replace the certificates above
	if server.ClientCAs == nil {
		server.ClientCAs = c.RootCAs
	}
	client = c.Clone()
	client.MinVersion = tls.VersionTLS13
	// The ID in the certificate identifies a node, regardless of the node's address. This function verifies the chain,
	// and the handshake verifies the ID.
	client.InsecureSkipVerify = true
	client.VerifyConnection = func(s tls.ConnectionState) error {
		rest := x509.NewCertPool()
		for _, i := range s.PeerCertificates[1:] {
			rest.AddCert(i)
		}
		o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: rest,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if c.Time != nil {
			o.CurrentTime = c.Time()
		}
		_, err := s.PeerCertificates[0].Verify(o)
		return err
	}
	return client, server, nil
}
