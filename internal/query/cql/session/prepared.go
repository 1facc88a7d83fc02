// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/md5"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// preparedCache holds the prepared statements of a node by ID. The number and the total memory of the statements are
// limited. When a limit is exceeded, the cache evicts the least recently used statement of a sample. Clients of an
// evicted statement receive an Unprepared error and prepare the statement again.
type preparedCache struct {
	shards   [preparedShards]preparedShard
	max      int64
	bytesMax int64

	count, bytes atomic.Int64
	// clock advances only when a statement is prepared. Therefore, the use of a statement is usually recorded without a
	// write.
	clock  atomic.Int64
	hand   atomic.Uint32 // shard at which the next eviction starts
	evicts atomic.Int64
}

const (
	preparedShards = 64
	// evictSample is the number of entries that an eviction compares.
	evictSample = 16
	// These constants are used to estimate the memory of a statement. A bound plan is much larger than the statement
	// text, and the size of a SELECT * depends on the number of columns.
	preparedBytesBase      = 4 << 10
	preparedBytesPerByte   = 8
	preparedBytesPerColumn = 320
	// quotedMax is the maximum length of a quoted statement in an error message.
	quotedMax = 200
)

type preparedShard struct {
	mu sync.RWMutex
	m  map[[16]byte]*statement
}

func newPreparedCache(max, bytesMax int) *preparedCache {
	c := &preparedCache{max: int64(max), bytesMax: int64(bytesMax)}
	for i := range c.shards {
		c.shards[i].m = map[[16]byte]*statement{}
	}
	return c
}

// preparedID returns Cassandra's ID of a statement: the MD5 of the keyspace and the text. Drivers use the ID on all
// nodes. Some drivers require that a second PREPARE return the same ID.
func preparedID(keyspace string, text []byte) [16]byte {
	h := md5.New()
	h.Write([]byte(keyspace))
	h.Write(text)
	var id [16]byte
	h.Sum(id[:0])
	return id
}

func (c *preparedCache) shard(id *[16]byte) *preparedShard { return &c.shards[id[0]%preparedShards] }

// get returns a statement, or nil if the ID is unknown.
func (c *preparedCache) get(id [16]byte) *statement {
	s := c.shard(&id)
	s.mu.RLock()
	st := s.m[id]
	s.mu.RUnlock()
	if st == nil {
		return nil
	}
	if now := c.clock.Load(); st.used.Load() != now {
		st.used.Store(now)
	}
	return st
}

// check rejects a text if its prepared statement would exceed the memory limit of the cache.
func (c *preparedCache) check(text []byte) error {
	return c.fits(text, preparedBytesBase+preparedBytesPerByte*int64(len(text)))
}

// fits rejects a statement whose size exceeds the memory limit of the cache.
func (c *preparedCache) fits(text []byte, size int64) error {
	if size <= c.bytesMax {
		return nil
	}
	quoted := string(text[:min(len(text), quotedMax)])
	for len(quoted) > 0 && !utf8.ValidString(quoted) {
		quoted = quoted[:len(quoted)-1]
	}
	return dberr.Invalidf("Prepared statement of size %d bytes is larger than allowed maximum of %d MB: %s...", size,
		c.bytesMax>>20, quoted)
}

// bytes estimates the memory of a statement from the length of its text and the number of its columns and values.
func (st *statement) bytes() int64 {
	columns := len(st.variables)
	if st.result != nil {
		columns += len(st.result.Columns)
	}
	return preparedBytesBase + preparedBytesPerByte*int64(len(st.text)) + preparedBytesPerColumn*int64(columns)
}

// put caches a statement. If a limit is exceeded, put evicts other statements.
func (c *preparedCache) put(id [16]byte, st *statement) {
	st.used.Store(c.clock.Add(1))
	s := c.shard(&id)
	s.mu.Lock()
	c.drop(s, id)
	s.m[id] = st
	c.count.Add(1)
	c.bytes.Add(st.bytes())
	s.mu.Unlock()
	for c.count.Load() > c.max || c.bytes.Load() > c.bytesMax {
		if !c.evict(id) {
			return
		}
	}
}

// remove removes a statement unless the cache contains a different statement under the same ID.
func (c *preparedCache) remove(id [16]byte, st *statement) {
	s := c.shard(&id)
	s.mu.Lock()
	if s.m[id] == st {
		c.drop(s, id)
	}
	s.mu.Unlock()
}

// drop removes an entry if the entry exists. The caller must hold the shard's lock.
func (c *preparedCache) drop(s *preparedShard, id [16]byte) {
	if st := s.m[id]; st != nil {
		delete(s.m, id)
		c.count.Add(-1)
		c.bytes.Add(-st.bytes())
	}
}

// evict compares a few entries of the next nonempty shard and removes the least recently used entry. It never removes
// the entry keep. If no other entry exists, evict returns false. The first entries are a random sample because the
// iteration order of a map is random.
func (c *preparedCache) evict(keep [16]byte) bool {
	for range preparedShards {
		s := &c.shards[c.hand.Add(1)%preparedShards]
		s.mu.Lock()
		var victim [16]byte
		oldest, n := int64(0), 0
		for id, st := range s.m {
			if id == keep {
				continue
			}
			if u := st.used.Load(); n == 0 || u < oldest {
				victim, oldest = id, u
			}
			if n++; n == evictSample {
				break
			}
		}
		if n > 0 {
			c.drop(s, victim)
		}
		s.mu.Unlock()
		if n > 0 {
			c.evicts.Add(1)
			return true
		}
	}
	return false
}

func (c *preparedCache) removeIf(gone func(*statement) bool) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for id, st := range s.m {
			if gone(st) {
				c.drop(s, id)
			}
		}
		s.mu.Unlock()
	}
}

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

func (c *preparedCache) len() int { return int(c.count.Load()) }
