// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/md5"
	"sync"
	"sync/atomic"
)

// preparedCache holds the prepared statements of a node by id. It is bounded: when it is full, the statement that was not
// used for the longest among a sample makes room, and its clients prepare again when they are told so.
type preparedCache struct {
	shards [preparedShards]preparedShard
	max    int // per shard
	clock  atomic.Int64
	evicts atomic.Int64
}

const (
	preparedShards = 64
	// evictSample is how many entries an eviction looks at.
	evictSample = 16
)

type preparedShard struct {
	mu sync.RWMutex
	m  map[[16]byte]*statement
}

func newPreparedCache(max int) *preparedCache {
	c := &preparedCache{max: (max + preparedShards - 1) / preparedShards}
	for i := range c.shards {
		c.shards[i].m = map[[16]byte]*statement{}
	}
	return c
}

// preparedID is the id Cassandra gives: the MD5 of the session's keyspace and the text. Drivers remember it across nodes, and some
// insist that a second PREPARE yields the same.
func preparedID(keyspace string, text []byte) [16]byte {
	h := md5.New()
	h.Write([]byte(keyspace))
	h.Write(text)
	var id [16]byte
	h.Sum(id[:0])
	return id
}

func (c *preparedCache) shard(id *[16]byte) *preparedShard { return &c.shards[id[0]%preparedShards] }

// get returns nil for an unknown id.
func (c *preparedCache) get(id [16]byte) *statement {
	s := c.shard(&id)
	s.mu.RLock()
	st := s.m[id]
	s.mu.RUnlock()
	if st == nil {
		return nil
	}
	// The clock advances by one per statement prepared, so in steady state this writes nothing.
	if now := c.clock.Load(); st.used.Load() != now {
		st.used.Store(now)
	}
	return st
}

func (c *preparedCache) put(id [16]byte, st *statement) {
	st.used.Store(c.clock.Add(1))
	s := c.shard(&id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.m[id]; !exists && len(s.m) >= c.max {
		s.evict()
		c.evicts.Add(1)
	}
	s.m[id] = st
}

// evict removes the least recently used of a few entries; a map's order is random, which makes it a sample.
func (s *preparedShard) evict() {
	var victim [16]byte
	oldest, n := int64(0), 0
	for id, st := range s.m {
		if u := st.used.Load(); n == 0 || u < oldest {
			victim, oldest = id, u
		}
		if n++; n == evictSample {
			break
		}
	}
	delete(s.m, victim)
}

// removeIf drops every statement for which gone returns true.
func (c *preparedCache) removeIf(gone func(*statement) bool) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for id, st := range s.m {
			if gone(st) {
				delete(s.m, id)
			}
		}
		s.mu.Unlock()
	}
}

// each calls f for every statement, in no order.
func (c *preparedCache) each(f func(id [16]byte, st *statement)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		for id, st := range s.m {
			f(id, st)
		}
		s.mu.RUnlock()
	}
}

func (c *preparedCache) len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		n += len(s.m)
		s.mu.RUnlock()
	}
	return n
}
