// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// phase is the state of a handshake.
type phase uint8

const (
	expectStartup phase = iota
	expectAuthResponse
	ready
)

// handshake negotiates the protocol with a client and authenticates it. It belongs to the goroutine of the connection.
type handshake struct {
	opts   *Options
	nc     net.Conn
	remote netip.AddrPort
	keys   Authenticator // keys is for account clients, and nil for clients that log in with a role
	phase  phase
	// applicant is the client that is logging in.
	applicant session.Client
}

// startup responds to STARTUP. It negotiates the version, compression, and framing. It requests credentials if the
// server has an authenticator.
func (c *conn) startup(h cqlwire.Header, body []byte) {
	s, err := cqlwire.DecodeStartup(body)
	var compression cqlwire.Compression
	if err == nil {
		err = checkCQLVersion(s)
	}
	if err == nil {
		compression, err = chooseCompression(s[cqlwire.StartupCompression], h.Version)
	}
	known := false
	if err == nil {
		known, err = c.handshake.start(s, h.Version)
	}
	if err != nil {
		c.out.respondError(h.Stream, err)
		return
	}
	c.exec.throwOnOverload = s[cqlwire.StartupThrowOnOverload] == "1"
	if known {
		c.enter()
		c.out.respond(h.Stream, cqlwire.OpReady, func(dst []byte) []byte { return dst })
	} else {
		c.out.respond(h.Stream, cqlwire.OpAuthenticate, func(dst []byte) []byte {
			return cqlwire.AppendAuthenticate(dst, cqlwire.PasswordAuthenticator)
		})
	}
	// The response to STARTUP is the last unframed message.
	c.in.compression, c.in.segments = compression, h.Version >= cqlwire.V5
	c.out.mu.Lock()
	c.out.w.SetFraming(c.in.segments, compression)
	c.out.mu.Unlock()
}

// authResponse responds to AUTH_RESPONSE after it has checked the credentials. A client whose login fails may retry
// until the handshake timeout.
func (c *conn) authResponse(h cqlwire.Header, body []byte) {
	if err := c.handshake.login(c.ctx, body); err != nil {
		c.out.respondError(h.Stream, err)
		return
	}
	c.enter()
	c.out.respond(h.Stream, cqlwire.OpAuthSuccess, cqlwire.AppendAuthSuccess)
}

// start sets the client's description from the client's options, and authenticates the client by its certificate.
// known is false if the client must log in.
func (k *handshake) start(s cqlwire.Startup, version uint8) (known bool, err error) {
	client := session.Client{DriverName: s[cqlwire.StartupDriverName], DriverVersion: s[cqlwire.StartupDriverVersion],
		Options: keptOptions(s)}
	if _, asked := s[cqlwire.TabletsRouting]; asked && k.opts.Tablets {
		client.Tablets = version >= cqlwire.V4 // version 3 has no custom payload
	}
	known = k.authenticator() == nil
	if leaf := k.certificate(); leaf != nil && !known && k.keys == nil && k.opts.CertificateRole != nil {
		login, err := k.opts.CertificateRole(k.remote.Addr(), leaf)
		if err != nil {
			return false, err
		}
		client.User, client.Record, known = login.Role, login.Version, login.Role != ""
	}
	if k.applicant = client; !known {
		k.phase = expectAuthResponse
	}
	return known, nil
}

// login checks the credentials of AUTH_RESPONSE.
func (k *handshake) login(ctx context.Context, body []byte) error {
	token, err := cqlwire.DecodeAuthResponse(body)
	if err != nil {
		return err
	}
	user, password, err := cqlwire.DecodePlain(token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.opts.HandshakeTimeout)
	defer cancel()
	login, err := k.authenticator().Authenticate(ctx, k.remote.Addr(), user, password)
	k.applicant.User, k.applicant.Record = login.Role, login.Version
	return err
}

// authenticator returns the authenticator for the client, or nil if no login is required.
func (k *handshake) authenticator() Authenticator {
	if k.keys != nil {
		return k.keys
	}
	return k.opts.Authenticator
}

// validate checks that a message is allowed in the current phase. version is the version of the connection.
func (k *handshake) validate(h cqlwire.Header, version uint8) error {
	op := h.Opcode
	if h.Response {
		return dberr.Protocolf("Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode %d (%s)",
			uint8(op), op)
	}
	if h.Version != version {
		return dberr.Protocolf("Invalid message version. Got %d/v%d but previous messages on this connection had "+
			"version %d/v%d", h.Version, h.Version, version, version)
	}
	switch op {
	case cqlwire.OpQuery, cqlwire.OpPrepare, cqlwire.OpExecute, cqlwire.OpBatch, cqlwire.OpRegister,
		cqlwire.OpStartup, cqlwire.OpOptions, cqlwire.OpAuthResponse:
	case cqlwire.OpError, cqlwire.OpReady, cqlwire.OpAuthenticate, cqlwire.OpSupported, cqlwire.OpResult,
		cqlwire.OpEvent, cqlwire.OpAuthChallenge, cqlwire.OpAuthSuccess:
		return dberr.Protocolf("Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode %d (%s)",
			uint8(op), op)
	default:
		return dberr.Protocolf("Unknown opcode %d", uint8(op))
	}
	switch k.phase {
	case expectStartup:
		if op != cqlwire.OpStartup && op != cqlwire.OpOptions {
			return dberr.Protocolf("Unexpected message %s, expecting STARTUP or OPTIONS", op)
		}
	case expectAuthResponse:
		if op != cqlwire.OpAuthResponse {
			return dberr.Protocolf("Unexpected message %s, expecting SASL_RESPONSE", op)
		}
	default:
		if op == cqlwire.OpStartup {
			return dberr.Protocolf("Unexpected message STARTUP, the connection is already initialized")
		}
		if op == cqlwire.OpAuthResponse {
			return dberr.Protocolf("Unexpected message %s, the connection is already initialized", op)
		}
	}
	return nil
}

// startupBytesMax is the maximum size of the STARTUP options that a connection keeps.
const startupBytesMax = 8 << 10

// keptOptions returns the STARTUP options for system_views.clients. If the options are too large, the longest options
// are omitted.
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

// certificate returns the certificate of the client, or nil if the client has not sent a certificate.
func (k *handshake) certificate() *x509.Certificate {
	t, ok := k.nc.(*tls.Conn)
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
