// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"

	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/login"
)

// listenCosmos opens the listener for clients that authenticate with an account key, if it is configured.
func (n *Node) listenCosmos(ctx context.Context) error {
	if n.opts.CosmosOff() {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", n.opts.CosmosCQL)
	if err != nil {
		return fmt.Errorf("listen for CQL clients with account keys: %w", err)
	}
	n.cosmosListener = n.reserve.Listener(l)
	n.closers = append(n.closers, closeQuietly(n.cosmosListener))
	return nil
}

// CosmosAddr returns the address at which CQL clients authenticate with an account key, or nil.
func (n *Node) CosmosAddr() net.Addr {
	if n.cosmosListener == nil {
		return nil
	}
	return n.cosmosListener.Addr()
}

// serveCosmos serves clients that authenticate with an account key, whether or not authentication is required
// elsewhere.
func (n *Node) serveCosmos() {
	if n.cosmosListener == nil {
		return
	}
	n.wg.Go(func() {
		if err := n.cql.ServeAccount(n.cosmosListener, n.accounts); err != nil {
			n.fail(err)
		}
	})
}

// accountKeys returns the current account keys.
func (n *Node) accountKeys() []login.Key {
	k := n.keys.Keys()
	return []login.Key{{Name: access.PrimaryKey, Secret: k.Primary}, {Name: access.SecondaryKey, Secret: k.Secondary},
		{Name: access.ReadOnlyKey, Secret: k.ReadOnly}}
}

// generateKeys generates the missing account keys: on a standalone node before the first client, in a cluster in the
// background.
func (n *Node) generateKeys() error {
	if n.restListener == nil && n.cosmosListener == nil {
		return nil
	}
	if n.cluster == nil {
		ctx, cancel := context.WithTimeout(context.Background(), schemachange.Timeout)
		defer cancel()
		return n.keys.Generate(ctx)
	}
	n.inBackground(func(ctx context.Context) { n.keys.RetryGenerate(ctx, n.log) })
	return nil
}

// accountKeyPage returns the keys for the owner of the data directory.
func (n *Node) accountKeyPage() *admin.AccountKeys {
	page := &admin.AccountKeys{Source: n.keys}
	if a := n.RESTAddr(); a != nil {
		scheme := "http"
		if n.opts.TLS.Cert != "" {
			scheme = "https"
		}
		page.Endpoint = scheme + "://" + a.String() + "/"
	}
	if a := n.CosmosAddr(); a != nil {
		page.CQL = a.String()
	}
	return page
}
