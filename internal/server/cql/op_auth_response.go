// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// authResponse answers AUTH_RESPONSE: it checks the credentials. A client whose login fails may retry until the
// handshake timeout.
func (c *conn) authResponse(h cqlwire.Header, body []byte) {
	login, err := c.login(body)
	if err != nil {
		c.respondError(h.Stream, err)
		return
	}
	client := c.applicant
	client.User, client.Record = login.Role, login.Version
	c.enter(client)
	c.respond(h.Stream, cqlwire.OpAuthSuccess, cqlwire.AppendAuthSuccess)
}

func (c *conn) login(body []byte) (access.Login, error) {
	token, err := cqlwire.DecodeAuthResponse(body)
	if err != nil {
		return access.Login{}, err
	}
	user, password, err := cqlwire.DecodePlain(token)
	if err != nil {
		return access.Login{}, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.srv.opts.HandshakeTimeout)
	defer cancel()
	return c.authenticator().Authenticate(ctx, c.remote.Addr(), user, password)
}

// authenticator returns the authenticator for the client, or nil if no login is required.
func (c *conn) authenticator() Authenticator {
	if c.keys != nil {
		return c.keys
	}
	return c.srv.opts.Authenticator
}
