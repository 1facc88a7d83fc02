// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/login"
)

// serveCosmos serves clients that authenticate with an account key, whether or not authentication is required
// elsewhere.
func (n *Node) serveCosmos() {
	if n.Account == nil {
		return
	}
	n.life.Serve(func() error { return n.cql.ServeAccount(n.Account, n.accounts) })
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
	if n.REST == nil && n.Account == nil {
		return nil
	}
	if n.cluster == nil {
		ctx, cancel := context.WithTimeout(context.Background(), schemachange.Timeout)
		defer cancel()
		return n.keys.Generate(ctx)
	}
	n.life.Background(func(ctx context.Context) { n.keys.RetryGenerate(ctx, n.log) })
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
