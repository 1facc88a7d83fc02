// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
)

// security holds the credentials that both sides of a connection must prove before their hellos.
type security struct {
	client, server *tls.Config // nil without TLS
	secret         []byte      // nil without a secret
}

func newSecurity(config *tls.Config, secret []byte) (*security, error) {
	if secret != nil && len(secret) < SecretMin {
		return nil, fmt.Errorf("transport: the secret has %d bytes; the minimum is %d", len(secret),
			SecretMin)
	}
	client, server, err := sides(config)
	if err != nil {
		return nil, err
	}
	return &security{client: client, server: server, secret: secret}, nil
}

// proven is the identity that the peer has proven before its hello. The zero value means that the peer has proven no
// identity.
type proven struct {
	leaf   *x509.Certificate
	secret bool
	node   NodeID // node ID in the proof of the secret
}

// check returns an error if the proven identity differs from the node ID in the hello.
func (p *proven) check(node NodeID) error {
	switch {
	case p.leaf != nil && !names(p.leaf, node):
		return &Refused{Reason: ErrIdentity, Text: fmt.Sprintf("node %x presented the certificate of %v", node,
			p.leaf.URIs)}
	case p.secret && p.node != node:
		return &Refused{Reason: ErrIdentity, Text: fmt.Sprintf("node %x presented the secret proof of node %x", node,
			p.node)}
	}
	return nil
}

// dialled performs the proofs on a connection that this node has dialed, and returns the connection to use.
func (s *security) dialled(ctx context.Context, raw net.Conn, self NodeID) (net.Conn, proven, error) {
	conn, p := raw, proven{}
	if s.client != nil {
		c := tls.Client(raw, s.client)
		if err := c.HandshakeContext(ctx); err != nil {
			return nil, p, fmt.Errorf("tls: %w", err)
		}
		conn, p.leaf = c, c.ConnectionState().PeerCertificates[0]
	}
	if s.secret != nil {
		var err error
		if p.node, err = proveDialled(conn, s.secret, self); err != nil {
			return nil, p, fmt.Errorf("handshake: %w", err)
		}
		p.secret = true
	}
	return conn, p, nil
}

// accepted performs the proofs on the accepting side. With an error, it also returns the connection if the caller may
// send the reason for the error.
func (s *security) accepted(ctx context.Context, raw net.Conn, self NodeID) (net.Conn, proven, error) {
	conn, p := raw, proven{}
	if s.server != nil {
		c := tls.Server(raw, s.server)
		if err := c.HandshakeContext(ctx); err != nil {
			return nil, p, fmt.Errorf("tls: %w", err)
		}
		conn, p.leaf = c, c.ConnectionState().PeerCertificates[0]
	}
	if s.secret != nil {
		var err error
		if p.node, err = proveAccepted(conn, s.secret, self); err != nil {
			return conn, p, fmt.Errorf("handshake: %w", err)
		}
		p.secret = true
	}
	return conn, p, nil
}
