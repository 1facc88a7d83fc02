// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// certificatesEvery is how often the node checks certificate files for changes.
const certificatesEvery = 2 * time.Second

// certificates holds the certificates and authorities for clients and nodes. They are reloaded when their files change
// or on request. Existing connections are unchanged.
type certificates struct {
	clients atomic.Pointer[tls.Config]
	// lifetimes are the lifetimes of the certificates in use.
	lifetimes atomic.Pointer[[]lifetime]
	mu        sync.Mutex
	read      map[string]fileState // by path, at the last attempt
}

// fileState identifies a version of a file.
type fileState struct {
	size     int64
	modified time.Time
}

// dynamicTLS returns a listener configuration that always uses the latest certificates, or nil without TLS.
func (n *Node) dynamicTLS() *tls.Config {
	if n.certificates.clients.Load() == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config,
		error) {
		return n.certificates.clients.Load(), nil
	}}
}

// clientTLS loads the certificates and authorities for clients.
func (n *Node) clientTLS() (*tls.Config, error) {
	c, err := clientConfig(&n.opts.TLS)
	if c != nil && n.opts.Auth.Certificates == "optional" {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, err
}

// identities returns the identities of a certificate: its URIs, including SPIFFE IDs, and its subject in RFC 2253
// format.
func identities(c *x509.Certificate) (out []string) {
	for _, u := range c.URIs {
		out = append(out, u.String())
	}
	return append(out, c.Subject.String())
}

// certificateRole returns the role of a verified certificate. The role is empty if the certificate has none and a
// password is permitted.
func (n *Node) certificateRole(from netip.Addr, c *x509.Certificate) (access.Login, error) {
	state := n.authority.State()
	for _, identity := range identities(c) {
		role := state.Identity(identity)
		if role == "" {
			continue
		}
		login := access.Login{Role: role, Version: state.Role(role).Version()}
		if !n.authority.Subject(role).Login {
			err := &dberr.BadCredentials{Message: role + " is not permitted to log in"}
			n.logins.Failed(context.Background(), from, role, err)
			return access.Login{}, err
		}
		n.auditLogin(from, role, nil)
		return login, nil
	}
	if n.opts.Auth.Certificates != "required" {
		return access.Login{}, nil
	}
	err := &dberr.BadCredentials{Message: "The certificate stands for no role: ADD IDENTITY '" + identities(c)[0] +
		"' TO ROLE ..."}
	n.logins.Failed(context.Background(), from, "", err)
	return access.Login{}, err
}

func (n *Node) certificateFiles() (paths []string) {
	o, c := &n.opts.TLS, &n.opts.Cluster.TLS
	for _, path := range []string{o.Cert, o.Key, o.ClientCA, c.CA, c.Cert, c.Key} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// changed reports whether certificate files have changed since the last call.
func (c *certificates) changed(paths []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]fileState{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			now[path] = fileState{info.Size(), info.ModTime()}
		}
	}
	before := c.read
	c.read = now
	if len(before) != len(now) {
		return true
	}
	for path, state := range now {
		if before[path] != state {
			return true
		}
	}
	return false
}

// Reload reloads the certificates, as SIGHUP does. If it fails, it keeps the previous certificates and logs the error.
func (n *Node) Reload() error {
	err := n.reload()
	if err != nil {
		n.log.LogAttrs(context.Background(), slog.LevelError,
			"certificate reload failed; keeping the previous certificates",
			slog.String("error", err.Error()))
	} else if len(n.certificateFiles()) > 0 {
		n.log.LogAttrs(context.Background(), slog.LevelInfo, "certificates reloaded")
	}
	return err
}

func (n *Node) reload() error {
	clients, err := n.clientTLS()
	if err != nil {
		return err
	}
	nodes, id, err := nodeConfig(&n.opts.Cluster.TLS)
	if err != nil {
		return err
	}
	if id != nil && *id != *n.nodeID {
		return fmt.Errorf("cluster.tls.cert is for node %x, but this is node %x", *id, *n.nodeID)
	}
	next := n.lifetimes(clients, nodes)
	if err := refuseInvalid(*n.certificates.lifetimes.Load(), next, time.Now()); err != nil {
		return err
	}
	if n.cluster != nil && nodes != nil {
		if err := n.cluster.transport.SetTLS(nodes); err != nil {
			return err
		}
	}
	n.certificates.clients.Store(clients)
	n.certificates.lifetimes.Store(&next)
	n.logExpiry(context.Background())
	return nil
}

// watchCertificates reloads changed certificates until ctx ends. A file that changes during a reload is reloaded again.
func (n *Node) watchCertificates(ctx context.Context) {
	paths := n.certificateFiles()
	if len(paths) == 0 {
		return
	}
	tick, day := time.NewTicker(certificatesEvery), time.NewTicker(expiryLogEvery)
	defer tick.Stop()
	defer day.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-day.C:
			n.logExpiry(ctx)
		case <-tick.C:
			if n.certificates.changed(paths) {
				_ = n.Reload() // it logs errors
			}
		}
	}
}
