// SPDX-License-Identifier: Apache-2.0

// Package certificates loads the TLS certificates of a node for clients and for other nodes. It reloads certificates
// when their files change, and reports when they expire. Start reading at Store.
package certificates

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
)

// checkInterval is the interval at which Watch checks certificate files for changes.
const checkInterval = 2 * time.Second

// Store holds the certificates and authorities for clients and nodes. They are reloaded on request and when their
// files change. A reload does not affect existing connections. Its methods are safe for concurrent use.
type Store struct {
	client options.TLS
	node   options.NodeTLS
	// optional reports whether clients may connect without a certificate.
	optional bool
	log      *slog.Logger

	// nodeTLS is the configuration for connections between nodes that was loaded at startup. nodeID is the node ID in
	// the certificate of nodeTLS.
	nodeTLS *tls.Config
	nodeID  *topology.NodeID
	clients atomic.Pointer[tls.Config]
	// lifetimes holds the lifetimes of the certificates in use.
	lifetimes atomic.Pointer[[]lifetime]

	mu        sync.Mutex
	transport Transport
	read      map[string]fileState // versions of the files at the last attempt, by path
}

// Transport connects to other nodes. *transport.Transport implements it.
type Transport interface {
	// SetTLS sets the configuration of new connections.
	SetTLS(config *tls.Config) error
}

// fileState identifies a version of a file.
type fileState struct {
	size     int64
	modified time.Time
}

// Load loads the configured certificates. It logs certificates that expire soon. It also logs secrets that other users
// of the machine can read.
func Load(o *options.Options, log *slog.Logger) (*Store, error) {
	s := &Store{client: o.TLS, node: o.Cluster.TLS, optional: o.Auth.Certificates == "optional", log: log}
	s.changed() // record the versions before the files are read, to detect changes during the read
	clients, err := s.clientConfig()
	if err != nil {
		return nil, err
	}
	if s.nodeTLS, s.nodeID, err = nodeConfig(&s.node); err != nil {
		return nil, err
	}
	s.use(clients, s.lifetimesOf(clients, s.nodeTLS))
	warnReadable(log, s.node.Key, s.client.Key, o.Cluster.JoinSecretFile,
		o.Storage.Encryption.KeyFile, o.Storage.Encryption.OldKeyFile)
	return s, nil
}

// Nodes returns the configuration for connections between nodes that was loaded at startup, and the node ID in the
// certificate. Both are nil without TLS.
func (s *Store) Nodes() (config *tls.Config, id *topology.NodeID) { return s.nodeTLS, s.nodeID }

// Clients returns a listener configuration that always uses the latest certificates. It returns nil without TLS.
func (s *Store) Clients() *tls.Config {
	if s.clients.Load() == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config,
		error) {
		return s.clients.Load(), nil
	}}
}

// SetTransport makes new connections between nodes use reloaded certificates.
func (s *Store) SetTransport(t Transport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transport = t
}

// use makes new client connections use a configuration.
func (s *Store) use(clients *tls.Config, lifetimes []lifetime) {
	s.clients.Store(clients)
	s.lifetimes.Store(&lifetimes)
	s.logProblems(context.Background())
}

// files returns the paths of the configured files.
func (s *Store) files() (paths []string) {
	for _, path := range []string{s.client.Cert, s.client.Key, s.client.ClientCA, s.node.CA, s.node.Cert, s.node.Key} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// changed reports whether files have changed since the last call.
func (s *Store) changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]fileState{}
	for _, path := range s.files() {
		if info, err := os.Stat(path); err == nil {
			now[path] = fileState{info.Size(), info.ModTime()}
		}
	}
	before := s.read
	s.read = now
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

// Reload reloads the certificates. If the reload fails, it keeps the previous certificates and logs the error.
func (s *Store) Reload() error {
	err := s.reload()
	if err != nil {
		s.log.LogAttrs(context.Background(), slog.LevelError,
			"certificate reload failed; keeping the previous certificates",
			slog.String("error", err.Error()))
	} else if len(s.files()) > 0 {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "certificates reloaded")
	}
	return err
}

func (s *Store) reload() error {
	clients, err := s.clientConfig()
	if err != nil {
		return err
	}
	nodes, id, err := nodeConfig(&s.node)
	if err != nil {
		return err
	}
	if id != nil && *id != *s.nodeID {
		return fmt.Errorf("cluster.tls.cert is for node %x, but this is node %x", *id, *s.nodeID)
	}
	next := s.lifetimesOf(clients, nodes)
	if err := refuseInvalid(*s.lifetimes.Load(), next, time.Now()); err != nil {
		return err
	}
	s.mu.Lock()
	t := s.transport
	s.mu.Unlock()
	if t != nil && nodes != nil {
		if err := t.SetTLS(nodes); err != nil {
			return err
		}
	}
	s.use(clients, next)
	return nil
}

// Watch reloads changed certificates until ctx ends. If a file changes during a reload, it is reloaded again.
func (s *Store) Watch(ctx context.Context) {
	if len(s.files()) == 0 {
		return
	}
	tick, day := time.NewTicker(checkInterval), time.NewTicker(expiryLogEvery)
	defer tick.Stop()
	defer day.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-day.C:
			s.logProblems(ctx)
		case <-tick.C:
			if s.changed() {
				_ = s.Reload() // Reload logs errors
			}
		}
	}
}
