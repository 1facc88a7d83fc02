// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"net/netip"
	"sync"

	"github.com/ilion-db/ilion/internal/model/schema"
)

type viewKey struct{}

// view is what one query sees, however many commands it takes: nodes may come and go between them.
type view struct {
	local    netip.AddrPort
	once     sync.Once
	snapshot *schema.Schema
	info     NodeInfo
}

// WithLocal is the context of one query of a client that reached this node at an address: all reads through it see one
// state of the schema and of the nodes, with the addresses that this client can use.
func WithLocal(ctx context.Context, local netip.AddrPort) context.Context {
	return context.WithValue(ctx, viewKey{}, &view{local: local})
}

// see is what the query of a context sees.
func (c *Catalog) see(ctx context.Context) (*schema.Schema, *NodeInfo) {
	v, ok := ctx.Value(viewKey{}).(*view)
	if !ok {
		v = new(view)
	}
	v.once.Do(func() { v.snapshot, v.info = c.Snapshot(), c.info() })
	return v.snapshot, &v.info
}

// dialled is the address at which the client reached this node, invalid if that is not known.
func dialled(ctx context.Context) netip.AddrPort {
	if v, ok := ctx.Value(viewKey{}).(*view); ok {
		return v.local
	}
	return netip.AddrPort{}
}
