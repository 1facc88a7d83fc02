// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/x509"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// RoleLogin logs clients in as roles without the CQL handshake. Clients use a password over HTTP or a client
// certificate. The caller must set its fields before use.
type RoleLogin struct {
	Checker   *Checker
	Authority *session.Authority
	// Region is the region of this node. It matters for roles that are restricted to some data centers.
	Region string
	// CertificateRequired rejects clients whose certificate has no role.
	CertificateRequired bool
}

// Login returns the subject for a user name and a password. Login returns the errors of Checker.Authenticate, and
// dberr.Unauthorized.
func (l *RoleLogin) Login(ctx context.Context, from netip.Addr, name, password string) (*access.Subject, error) {
	login, err := l.Checker.Authenticate(ctx, from, name, password)
	if err != nil {
		return nil, err
	}
	who := l.Authority.Subject(login.Role)
	if l.Authority.Ended(&login) { // the credentials have changed since the two previous calls
		who = access.Ended(login.Role)
	}
	return who, who.Admit(l.Region, from)
}

// CertificateRole returns the role of a verified certificate. The role is empty if the certificate has no role and a
// password is permitted.
func (l *RoleLogin) CertificateRole(from netip.Addr, c *x509.Certificate) (access.Login, error) {
	state := l.Authority.State()
	for _, identity := range identities(c) {
		role := state.Identity(identity)
		if role == "" {
			continue
		}
		login := access.Login{Role: role, Version: state.Role(role).Version()}
		if !l.Authority.Subject(role).Login {
			return access.Login{}, l.reject(from, role, role+" is not permitted to log in")
		}
		l.Checker.notify(from, role, nil)
		return login, nil
	}
	if !l.CertificateRequired {
		return access.Login{}, nil
	}
	return access.Login{}, l.reject(from, "",
		"The certificate stands for no role: ADD IDENTITY '"+identities(c)[0]+"' TO ROLE ...")
}

// reject counts and logs a failed login with a certificate, and returns its error.
func (l *RoleLogin) reject(from netip.Addr, role, message string) error {
	err := &dberr.BadCredentials{Message: message}
	l.Checker.tell(context.Background(), from, role, err)
	return err
}

// identities returns the identities of a certificate. The identities are the URIs of the certificate, including SPIFFE
// IDs, and its subject in RFC 2253 format.
func identities(c *x509.Certificate) (out []string) {
	for _, u := range c.URIs {
		out = append(out, u.String())
	}
	return append(out, c.Subject.String())
}
