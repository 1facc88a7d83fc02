// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/server/login"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// makeREST creates the REST API and the checker of account keys if they are enabled.
func (n *Node) makeREST() {
	if n.Account != nil {
		n.accounts = login.NewAccount(login.AccountOptions{Keys: n.accountKeys, Log: n.log, OnAttempt: n.auditLogin})
	}
	if n.REST == nil {
		return
	}
	o := rest.Options{
		Keys: n.keys.Keys, Now: n.clock.Now, TLS: n.certificates.Clients(),
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
	n.life.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		return n.rest.Shutdown(ctx)
	})
	n.life.Serve(func() error {
		if err := n.rest.Serve(n.REST); err != nil {
			return fmt.Errorf("serve REST: %w", err)
		}
		return nil
	})
	return nil
}

var (
	_ rest.Engine  = (*container.Engine)(nil)
	_ rest.Scripts = (*script.Service)(nil)
)
