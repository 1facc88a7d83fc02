// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"net/netip"
	"sync"

	"github.com/ilion-db/ilion/internal/model/schema"
)

type queryStateKey struct{}

// queryState holds the state that all commands of a query use, even if nodes join or leave during the query.
type queryState struct {
	local    netip.AddrPort
	once     sync.Once
	snapshot *schema.Schema
	info     NodeInfo
}

// WithLocal returns the context for one query. local is the address at which the client has reached this node. All
// reads in the context use the same schema and the same nodes. The results contain addresses that the client can reach.
func WithLocal(ctx context.Context, local netip.AddrPort) context.Context {
	return context.WithValue(ctx, queryStateKey{}, &queryState{local: local})
}

// stateFor returns the state of the context's query.
func (c *Catalog) stateFor(ctx context.Context) (*schema.Schema, *NodeInfo) {
	v, ok := ctx.Value(queryStateKey{}).(*queryState)
	if !ok {
		v = new(queryState)
	}
	v.once.Do(func() { v.snapshot, v.info = c.Snapshot(), c.info() })
	return v.snapshot, &v.info
}

// dialedAddress returns the address at which the client has reached this node, or an invalid address.
func dialedAddress(ctx context.Context) netip.AddrPort {
	if v, ok := ctx.Value(queryStateKey{}).(*queryState); ok {
		return v.local
	}
	return netip.AddrPort{}
}
