// SPDX-License-Identifier: Apache-2.0

package container

import (
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// textTotals caches the totals of the texts of large containers. Totals of small containers are always computed.
type textTotals struct {
	mu sync.Mutex
	of map[totalsKey]cachedTotals
}

type totalsKey struct {
	table uint32
	text  string // the path, and the languages of the container
}

type cachedTotals struct {
	sql.Totals
	until time.Time
}

// Totals are used for at least totalsAge, and for totalsFactor times the duration of their computation.
const (
	totalsAge    = 10 * time.Second
	totalsFactor = 100
	totalsMax    = 1000
)

// find returns the cached totals of the texts at a path, or calls compute.
func (t *textTotals) find(c *Container, path string, s *sched.Scheduler,
	compute func() (sql.Totals, error)) (sql.Totals, error) {
	key := totalsKey{c.table.ID, path + "\x00" + string(c.Definition.Schema.Text())}
	begin := s.Now()
	t.mu.Lock()
	cached, ok := t.of[key]
	t.mu.Unlock()
	if ok && begin.Before(cached.until) {
		return cached.Totals, nil
	}
	totals, err := compute()
	if err != nil || totals.Documents <= sql.TotalsExactMax {
		return totals, err
	}
	now := s.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= totalsMax {
		t.of = map[totalsKey]cachedTotals{}
	}
	t.of[key] = cachedTotals{totals, now.Add(max(totalsAge, totalsFactor*now.Sub(begin)))}
	return totals, nil
}
