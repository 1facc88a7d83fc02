// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"

	"github.com/ilion-db/ilion/internal/node/certificates"
	"github.com/ilion-db/ilion/internal/node/joinsecret"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/login"
)

// credentials holds the identity of the node and checks the credentials of clients.
type credentials struct {
	certificates *certificates.Store
	joinSecret   *joinsecret.Secret
	// logins and authority are nil without authentication.
	logins    *login.Checker
	authority *session.Authority
	roleLogin login.RoleLogin
}

// loadCredentials loads the credentials. The observer is notified of the login attempts of clients.
func loadCredentials(o *Options, observer login.Observer, log *slog.Logger) (
	c credentials, err error) {
	if c.certificates, err = certificates.Load(o, log); err != nil {
		return c, err
	}
	nodeTLS, _ := c.certificates.Nodes()
	if c.joinSecret, err = joinsecret.Read(o, nodeTLS != nil, log); err != nil || !o.Auth.Required() {
		return c, err
	}
	c.authority = session.NewAuthority(o.Region, o.Auth.Users, o.Auth.EndChangedLogins)
	c.logins, err = login.New(login.Options{Users: o.Auth.Users, Roles: c.authority, Log: log, Observer: observer})
	c.roleLogin = login.RoleLogin{Checker: c.logins, Authority: c.authority, Region: o.Region,
		CertificateRequired: o.Auth.Certificates == "required"}
	return c, err
}
