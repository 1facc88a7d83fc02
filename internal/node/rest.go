// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/server/login"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// listenREST opens the listener of the REST API if it is enabled.
func (n *Node) listenREST(ctx context.Context) error {
	o := &n.opts.REST
	if o.Off() {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil && o.Optional && errors.Is(err, syscall.EADDRINUSE) {
		n.log.LogAttrs(ctx, slog.LevelWarn, "the default address of the REST surface is taken, so this node has none: give "+
			"--rest HOST:PORT, or --rest off", slog.String("address", o.Address))
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot listen for REST clients: %w", err)
	}
	n.restListener = n.reserve.Listener(l)
	n.closers = append(n.closers, closeQuietly(n.restListener))
	return nil
}

// RESTAddr returns the address of the REST API, or nil.
func (n *Node) RESTAddr() net.Addr {
	if n.restListener == nil {
		return nil
	}
	return n.restListener.Addr()
}

// makeREST creates the REST API and the checker of account keys if they are enabled.
func (n *Node) makeREST() {
	if n.cosmosListener != nil {
		n.accounts = login.NewAccount(login.AccountOptions{Keys: n.accountKeys, Log: n.log, OnAttempt: n.auditLogin})
	}
	if n.restListener == nil {
		return
	}
	o := rest.Options{
		Keys: n.keys.Keys, Now: n.clock(), TLS: n.certificates.Clients(),
		ConnectionsMax:        max(1, n.opts.Limits.Connections/4),
		AddressConnectionsMax: n.opts.Limits.AddressConnections,
		RequestBytesMax:       int64(n.opts.Limits.RequestBytes / 4),
		Log:                   n.log,
		Admit:                 func(who fairshare.Principal) (func(), bool) { return n.cql.Guest(who, 5*ru.Unit) },
	}
	if n.audit != nil {
		o.Audit = n.audit.WriteREST
	}
	n.rest = rest.New(n.containers, n.scripts, o)
}

// serveREST starts the REST surface, if there is one.
func (n *Node) serveREST() error {
	if n.rest == nil {
		return nil
	}
	n.closers = append(n.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		return n.rest.Shutdown(ctx)
	})
	n.wg.Go(func() {
		if err := n.rest.Serve(n.restListener); err != nil {
			n.fail(fmt.Errorf("serve REST: %w", err))
		}
	})
	return nil
}

var (
	_ rest.Engine  = (*container.Engine)(nil)
	_ rest.Scripts = (*script.Service)(nil)
)
