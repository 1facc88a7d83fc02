// SPDX-License-Identifier: Apache-2.0

package container

import (
	"sync"

	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// queries caches compiled queries by text and parameters, because one page requires several aggregations.
type queries struct {
	mu sync.Mutex
	of map[string]*sql.Query
}

// queriesMax is the maximum number of cached queries with texts of up to queryTextMax bytes. When this limit is
// reached, the cache is cleared.
const (
	queriesMax   = 200
	queryTextMax = 8 << 10
)

// find returns the compiled query of an aggregation over a container.
func (s *queries) find(c *Container, r *pushdownRequest) (*sql.Query, error) {
	key := r.query + string(c.Definition.Schema.Text())
	s.mu.Lock()
	q := s.of[key]
	s.mu.Unlock()
	if q != nil {
		return q, nil
	}
	q, bad := (&QueryRequest{Text: r.text, Parameters: r.parameters}).compile(c)
	if bad != nil {
		return nil, bad
	}
	if len(key) > queryTextMax {
		return q, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= queriesMax {
		s.of = map[string]*sql.Query{}
	}
	s.of[key] = q
	return q, nil
}
