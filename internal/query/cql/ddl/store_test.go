// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/test/fakeclock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryStore applies changes to a catalog immediately.
type memoryStore struct {
	mu      sync.Mutex
	catalog *catalog.Catalog
}

func (m *memoryStore) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, events, err := schema.Apply(m.catalog.Snapshot(), c)
	if err == nil {
		m.catalog.Publish(s, events...)
	}
	return s, events, err
}

// newTestExecutor returns an executor on a single node with an empty schema. The clock and the UUIDs are counters.
func newTestExecutor() *Executor {
	info := catalog.NodeInfo{ClusterName: "Test Cluster", Endpoint: catalog.Endpoint{
		Listen: netip.MustParseAddrPort("127.0.0.1:7000"), Tokens: []token.Token{-100, 100},
	}}
	c := catalog.New(schema.New(), func() catalog.NodeInfo { return info })
	var ids uint64
	return New(c, &memoryStore{catalog: c}, Options{
		Clock: fakeclock.At(time.Unix(1000, 0)),
		UUID: func() (u schema.UUID) {
			ids++
			binary.BigEndian.PutUint64(u[8:], ids)
			return u
		},
	})
}
