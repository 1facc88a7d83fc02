// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// clientConfig returns the TLS configuration of the client listeners, or nil if TLS is disabled.
func (s *Store) clientConfig() (*tls.Config, error) {
	o := &s.client
	if o.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if o.ClientCA != "" {
		pem, err := os.ReadFile(o.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("tls.client_ca: %w", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.client_ca: no certificate in %s", o.ClientCA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if s.optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}

// warnReadable logs secrets that other users of the machine can read.
func warnReadable(log *slog.Logger, paths ...string) {
	for _, path := range paths {
		if path == "" || runtime.GOOS == "windows" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			log.LogAttrs(context.Background(), slog.LevelWarn,
				"other users of this machine can read a secret file", slog.String("file", path),
				slog.String("mode", info.Mode().Perm().String()))
		}
	}
}

// nodeConfig returns the mutual TLS configuration between nodes and the node ID in the certificate. Both are nil if
// TLS is disabled.
func nodeConfig(o *options.NodeTLS) (*tls.Config, *topology.NodeID, error) {
	if o.CA == "" {
		return nil, nil, nil
	}
	var pems [3][]byte
	for i, path := range []string{o.CA, o.Cert, o.Key} {
		var err error
		if pems[i], err = os.ReadFile(path); err != nil {
			return nil, nil, fmt.Errorf("cluster.tls: %w", err)
		}
	}
	c, err := transport.TLSConfig(pems[0], pems[1], pems[2])
	if err != nil {
		return nil, nil, fmt.Errorf("cluster.tls: %w", err)
	}
	leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	if err != nil {
		return nil, nil, fmt.Errorf("cluster.tls.cert: %w", err)
	}
	id, ok := transport.NodeOf(leaf)
	if !ok {
		return nil, nil, fmt.Errorf("cluster.tls.cert: %s contains no node ID: create it with ilion cert node", o.Cert)
	}
	return c, &id, nil
}
