// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// startup answers STARTUP: it negotiates the version, compression, and framing, and requests credentials if there is
// an authenticator.
func (c *conn) startup(h cqlwire.Header, body []byte) {
	s, err := cqlwire.DecodeStartup(body)
	var compression cqlwire.Compression
	if err == nil {
		err = checkCQLVersion(s)
	}
	if err == nil {
		compression, err = chooseCompression(s[cqlwire.StartupCompression], h.Version)
	}
	if err != nil {
		c.respondError(h.Stream, err)
		return
	}
	c.version = h.Version
	c.throwOnOverload = s[cqlwire.StartupThrowOnOverload] == "1"
	client := session.Client{DriverName: s[cqlwire.StartupDriverName], DriverVersion: s[cqlwire.StartupDriverVersion],
		Options: keptOptions(s)}
	if _, asked := s[cqlwire.TabletsRouting]; asked && c.srv.opts.Tablets {
		client.Tablets = c.version >= cqlwire.V4 // version 3 has no custom payload
	}
	known := c.authenticator() == nil
	if leaf := c.certificate(); leaf != nil && !known && c.keys == nil && c.srv.opts.CertificateRole != nil {
		login, err := c.srv.opts.CertificateRole(c.remote.Addr(), leaf)
		if err != nil {
			c.respondError(h.Stream, err)
			return
		}
		client.User, client.Record, known = login.Role, login.Version, login.Role != ""
	}
	if known {
		c.enter(client)
		c.respond(h.Stream, cqlwire.OpReady, func(dst []byte) []byte { return dst })
	} else {
		c.phase, c.applicant = expectAuthResponse, client
		c.respond(h.Stream, cqlwire.OpAuthenticate, func(dst []byte) []byte {
			return cqlwire.AppendAuthenticate(dst, cqlwire.PasswordAuthenticator)
		})
	}
	// The response to STARTUP is the last unframed message.
	c.compression, c.segments = compression, c.version >= cqlwire.V5
	c.mu.Lock()
	c.out.SetFraming(c.segments, compression)
	c.mu.Unlock()
}

// startupBytesMax is the maximum size of the STARTUP options that are kept for the lifetime of a connection.
const startupBytesMax = 8 << 10

// keptOptions returns the options of STARTUP for system_views.clients. If the options are too large, the longest are
// omitted.
func keptOptions(s cqlwire.Startup) map[string]string {
	names := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a)+len(s[a]), len(b)+len(s[b])), cmp.Compare(a, b))
	})
	kept := make(map[string]string, len(names))
	size := 0
	for _, name := range names {
		if size += len(name) + len(s[name]); size > startupBytesMax {
			break
		}
		kept[name] = s[name]
	}
	return kept
}

// certificate returns the client's certificate, or nil if the client has not sent one.
func (c *conn) certificate() *x509.Certificate {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	if shown := t.ConnectionState().PeerCertificates; len(shown) > 0 {
		return shown[0]
	}
	return nil
}

func checkCQLVersion(s cqlwire.Startup) error {
	v, ok := s[cqlwire.StartupVersion]
	if !ok {
		return dberr.Protocolf("Missing value CQL_VERSION in STARTUP message")
	}
	major, _, _ := strings.Cut(v, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return dberr.Protocolf("Invalid version value: %s", v)
	}
	if n < 3 {
		return dberr.Protocolf("CQL version %s is not supported by the binary protocol (supported version are >= 3.0.0)", v)
	}
	return nil
}

func chooseCompression(name string, version uint8) (cqlwire.Compression, error) {
	switch strings.ToLower(name) {
	case "":
		return cqlwire.NoCompression, nil
	case "lz4":
		return cqlwire.LZ4, nil
	case "snappy":
		if version >= cqlwire.V5 {
			return 0, dberr.Protocolf("Snappy compression is not supported in protocol V5")
		}
		return cqlwire.Snappy, nil
	default:
		return 0, dberr.Protocolf("Unknown compression algorithm: %s", name)
	}
}
