// SPDX-License-Identifier: Apache-2.0

package function

import (
	"sync"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// cacheMax limits the number of compiled functions. cacheBytes limits the total length of their bodies.
const (
	cacheMax   = 1000
	cacheBytes = 8 << 20
)

// cache maps function descriptors to compiled functions. A replaced function has a new descriptor. If the cache is
// full, it evicts arbitrary functions. Statements hold references to their functions, so an eviction does not affect
// statements.
type cache struct {
	mu    sync.Mutex
	calls map[*schema.Function]expr.Invoke
	bytes int
}

func (c *cache) get(f *schema.Function) expr.Invoke {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[f]
}

func (c *cache) put(f *schema.Function, call expr.Invoke) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[*schema.Function]expr.Invoke{}
	}
	if c.calls[f] == nil {
		c.bytes += len(f.Body)
	}
	c.calls[f] = call
	for other := range c.calls {
		if len(c.calls) <= cacheMax && c.bytes <= cacheBytes {
			return
		}
		if other != f {
			c.bytes -= len(other.Body)
			delete(c.calls, other)
		}
	}
}
