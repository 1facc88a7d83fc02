// SPDX-License-Identifier: Apache-2.0

// Package listeners opens the network listeners of a node and provides their addresses.
package listeners

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/diskfs"
)

// Set holds the listeners of a node.
type Set struct {
	// CQL accepts CQL clients.
	CQL net.Listener
	// Account accepts CQL clients that authenticate with an account key. It is nil if clients cannot authenticate with
	// a key.
	Account net.Listener
	// REST is nil if the REST API is disabled, and HTTP is nil if the HTTP interface is disabled.
	REST, HTTP net.Listener
	// Nodes accepts connections from other nodes. It is nil on a standalone node.
	Nodes net.Listener

	opts    *options.Options
	reserve *diskfs.Reserve
}

// Open opens the configured listeners. While the reserve of file descriptors is low, the listeners accept no
// connections. The store can then use the descriptors. Even if Open fails, the caller must close the Set.
func Open(ctx context.Context, o *options.Options, reserve *diskfs.Reserve, log *slog.Logger) (*Set, error) {
	s := &Set{opts: o, reserve: reserve}
	if err := s.open(ctx, &s.CQL, o.CQL); err != nil {
		return s, fmt.Errorf("cannot listen for CQL clients: %w", err)
	}
	if o.Cluster.Internal != "" {
		if err := s.open(ctx, &s.Nodes, o.Cluster.Internal); err != nil {
			return s, fmt.Errorf("cannot listen for other nodes: %w", err)
		}
	}
	if !o.CosmosOff() {
		if err := s.open(ctx, &s.Account, o.CosmosCQL); err != nil {
			return s, fmt.Errorf("listen for CQL clients with account keys: %w", err)
		}
	}
	if !o.REST.Off() {
		err := s.open(ctx, &s.REST, o.REST.Address)
		if err != nil && (!o.REST.Optional || !errors.Is(err, syscall.EADDRINUSE)) {
			return s, fmt.Errorf("cannot listen for REST clients: %w", err)
		}
		if err != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "the default address of the REST API is in use; "+
				"this node does not serve the API: specify --rest HOST:PORT, or --rest off", slog.String("address", o.REST.Address))
		}
	}
	if o.HTTP != "off" {
		if err := s.open(ctx, &s.HTTP, o.HTTP); err != nil {
			return s, fmt.Errorf("cannot listen for HTTP: %w", err)
		}
	}
	return s, nil
}

func (s *Set) open(ctx context.Context, into *net.Listener, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		*into = s.reserve.Listener(l)
	}
	return err
}

// Close closes the listeners that their servers have not closed.
func (s *Set) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.HTTP, s.REST, s.Account, s.Nodes, s.CQL} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// CQLAddr returns the address for CQL clients.
func (s *Set) CQLAddr() net.Addr { return s.CQL.Addr() }

// HTTPAddr returns the address of health checks and metrics, or nil if HTTP is disabled.
func (s *Set) HTTPAddr() net.Addr { return addr(s.HTTP) }

// RESTAddr returns the address of the REST API, or nil if the API is disabled.
func (s *Set) RESTAddr() net.Addr { return addr(s.REST) }

// CosmosAddr returns the address at which CQL clients authenticate with an account key. It returns nil if the address
// does not exist.
func (s *Set) CosmosAddr() net.Addr { return addr(s.Account) }

func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// ReadyLine returns the line that `ilion start` prints when the node serves requests.
func (s *Set) ReadyLine() string {
	line := "Ilion is ready: CQL on " + s.CQLAddr().String()
	if a := s.HTTPAddr(); a != nil {
		line += ", HTTP on " + a.String()
	}
	if a := s.RESTAddr(); a != nil {
		line += ", REST on " + a.String()
	}
	if a := s.CosmosAddr(); a != nil {
		line += ", CQL for account keys on " + a.String()
	}
	if s.opts.Data == "" {
		return line + ", data in memory"
	}
	return line + ", data in " + s.opts.Data
}

// InternalAddr returns the address for other nodes, or an empty string on a standalone node.
func (s *Set) InternalAddr() string {
	if s.Nodes == nil {
		return ""
	}
	return reachable(s.opts.Cluster.Advertise, s.Nodes.Addr(), "")
}

// ClientAddrs returns the addresses at which clients on other machines reach this node. web is empty if HTTP is
// disabled.
func (s *Set) ClientAddrs() (cql, web string) {
	host, _, _ := net.SplitHostPort(s.InternalAddr()) // validated, or the listener address
	cql = reachable(s.opts.CQL, s.CQL.Addr(), host)
	if s.HTTP != nil {
		web = reachable(s.opts.HTTP, s.HTTP.Addr(), host)
	}
	return cql, web
}

// reachable returns a listener's address for other machines. The address contains the actual port. If the listener
// accepts connections on all interfaces, reachable replaces the host.
func reachable(configured string, l net.Addr, elsewhere string) string {
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return l.String()
	}
	_, real, err := net.SplitHostPort(l.String())
	if err == nil && port == "0" {
		port = real
	}
	if options.IsUnspecified(host) && elsewhere != "" {
		host = elsewhere
	}
	return net.JoinHostPort(host, port)
}
