// SPDX-License-Identifier: Apache-2.0

// Package account serves clients that authenticate with the keys of the account. These clients are REST clients and
// CQL clients of Azure Cosmos DB.
package account

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/node/lifecycle"
	"github.com/ilion-db/ilion/internal/node/listeners"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/audit"
	"github.com/ilion-db/ilion/internal/server/cql"
	"github.com/ilion-db/ilion/internal/server/login"
	"github.com/ilion-db/ilion/internal/server/rest"
)

// drainTimeout is the maximum time for which Close waits for requests in flight.
const drainTimeout = 10 * time.Second

// Options holds the parts of a node that serve its account.
type Options struct {
	Node       *options.Options
	Listeners  *listeners.Set
	Metadata   *meta.Keeper
	CQL        *cql.Server
	Containers *container.Engine
	Scripts    *script.Service
	TLS        *tls.Config
	// Audit is nil if the audit log is disabled. Logins is notified of the login attempts of CQL clients.
	Audit  *audit.Log
	Logins login.Observer
	Clock  sched.Clock
	Log    *slog.Logger
}

// Server serves the clients of the account.
type Server struct {
	opts Options
	keys *rest.Keyring
	// REST is nil if the REST API is disabled. Logins is nil if CQL clients cannot authenticate with a key.
	REST   *rest.Server
	Logins *login.Account
}

// New returns a Server. The server accepts no clients until Start is called.
func New(o Options) *Server {
	s := &Server{opts: o, keys: rest.NewKeyring(o.Metadata, &o.Node.REST)}
	if o.Listeners.Account != nil {
		s.Logins = login.NewAccount(login.AccountOptions{Keys: s.loginKeys, Log: o.Log, Observer: o.Logins})
	}
	if o.Listeners.REST == nil {
		return s
	}
	limits := &o.Node.Limits
	r := rest.Options{
		Account: s, Clock: o.Clock, TLS: o.TLS,
		ConnectionsMax:        max(1, limits.Connections/4),
		AddressConnectionsMax: limits.AddressConnections,
		RequestBytesMax:       int64(limits.RequestBytes / 4),
		Log:                   o.Log,
	}
	if o.Audit != nil {
		r.Auditor = o.Audit
	}
	s.REST = rest.New(o.Containers, o.Scripts, r)
	return s
}

// Keys returns the current keys.
func (s *Server) Keys() *rest.Keys { return s.keys.Keys() }

// Admit reports whether CQL's admission control admits a REST request.
func (s *Server) Admit(who fairshare.Principal) (done func(), ok bool) {
	return s.opts.CQL.Guest(who, 5*ru.Unit)
}

// loginKeys returns the current keys for logins of CQL clients.
func (s *Server) loginKeys() []login.Key {
	k := s.keys.Keys()
	return []login.Key{{Name: access.PrimaryKey, Secret: k.Primary}, {Name: access.SecondaryKey, Secret: k.Secondary},
		{Name: access.ReadOnlyKey, Secret: k.ReadOnly}}
}

// Start serves clients until the node stops. It generates missing keys. A standalone node generates the keys before
// the first client connects. A cluster generates them in the background.
func (s *Server) Start(life *lifecycle.Lifecycle, standalone bool) error {
	if s.REST == nil && s.Logins == nil {
		return nil
	}
	if standalone {
		ctx, cancel := context.WithTimeout(context.Background(), schemachange.Timeout)
		defer cancel()
		if err := s.keys.Generate(ctx); err != nil {
			return err
		}
	} else {
		life.Background(func(ctx context.Context) { s.keys.RetryGenerate(ctx, s.opts.Log) })
	}
	if s.Logins != nil {
		life.Serve(func() error { return s.opts.CQL.ServeAccount(s.opts.Listeners.Account, s.Logins) })
	}
	if s.REST == nil {
		return nil
	}
	life.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		return s.REST.Shutdown(ctx)
	})
	life.Serve(func() error {
		if err := s.REST.Serve(s.opts.Listeners.REST); err != nil {
			return fmt.Errorf("serve REST: %w", err)
		}
		return nil
	})
	return nil
}

// KeyPage returns the keys for the owner of the data directory.
func (s *Server) KeyPage() *admin.AccountKeys {
	page := &admin.AccountKeys{Source: s.keys}
	if a := s.opts.Listeners.RESTAddr(); a != nil {
		scheme := "http"
		if s.opts.Node.TLS.Cert != "" {
			scheme = "https"
		}
		page.Endpoint = scheme + "://" + a.String() + "/"
	}
	if a := s.opts.Listeners.CosmosAddr(); a != nil {
		page.CQL = a.String()
	}
	return page
}

var (
	_ rest.Engine  = (*container.Engine)(nil)
	_ rest.Scripts = (*script.Service)(nil)
)
