// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/tls"
	"math/big"
	"net"
	"os"
	"testing"
)

// shownSerial is the serial number of the certificate that a client is shown.
func shownSerial(t *testing.T, address string) *big.Int {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

// TestCertificatesAreReadAgain proves that clients of CQL and HTTP are shown a new certificate when its files have
// changed or the node is told so, without a restart, and the one before where the new one is broken.
func TestCertificatesAreReadAgain(t *testing.T) {
	ca := newAuthority(t, "ca")
	ca.sign("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	n := startNode(t, Options{HTTP: "127.0.0.1:0", TLS: TLSOptions{Cert: ca.path("server.pem"),
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
			until(t, "the new certificate is shown", func() bool { return shownSerial(t, a).Cmp(want) == 0 })
		}
	}
	before := shownSerial(t, addresses[0])
	if err := os.WriteFile(ca.path("server.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(); err == nil {
		t.Error("a broken certificate was taken")
	}
	for _, a := range addresses {
		if shownSerial(t, a).Cmp(before) != 0 {
			t.Error("the certificate before is not shown any more")
		}
	}
}
