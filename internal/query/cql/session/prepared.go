// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/md5"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// preparedCache holds the prepared statements of a node by ID. Its size is limited by number and by memory. When a
// limit is exceeded, the least recently used statement of a sample is evicted. Its clients receive an Unprepared error
// and prepare it again.
type preparedCache struct {
	shards   [preparedShards]preparedShard
	max      int64
	bytesMax int64

	count, bytes atomic.Int64
	// clock advances only when a statement is prepared. Therefore, recording the use of a statement usually requires no
	// write.
	clock  atomic.Int64
	hand   atomic.Uint32 // shard at which the next eviction starts
	evicts atomic.Int64
}

const (
	preparedShards = 64
	// evictSample is the number of entries that an eviction compares.
	evictSample = 16
	// The estimated memory of a statement. A bound plan is much larger than its text, and the text of a SELECT * does
	// not show the number of columns.
	preparedBytesBase      = 4 << 10
	preparedBytesPerByte   = 8
	preparedBytesPerColumn = 320
	// quotedMax limits the part of a statement that an error quotes.
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
// nodes, and some drivers require a second PREPARE to return the same ID.
func preparedID(keyspace string, text []byte) [16]byte {
	h := md5.New()
	h.Write([]byte(keyspace))
	h.Write(text)
	var id [16]byte
	h.Sum(id[:0])
	return id
}

func (c *preparedCache) shard(id *[16]byte) *preparedShard { return &c.shards[id[0]%preparedShards] }

// get returns nil for an unknown ID.
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

// check rejects a text that would exceed the memory for all prepared statements.
func (c *preparedCache) check(text []byte) error {
	return c.fits(text, preparedBytesBase+preparedBytesPerByte*int64(len(text)))
}

// fits rejects a statement whose size exceeds the memory for all prepared statements.
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

// put caches a statement. While a limit is exceeded, put evicts other statements.
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

// remove removes a statement unless a different one has its ID.
func (c *preparedCache) remove(id [16]byte, st *statement) {
	s := c.shard(&id)
	s.mu.Lock()
	if s.m[id] == st {
		c.drop(s, id)
	}
	s.mu.Unlock()
}

// drop removes an entry if it exists. The caller must hold the shard's lock.
func (c *preparedCache) drop(s *preparedShard, id [16]byte) {
	if st := s.m[id]; st != nil {
		delete(s.m, id)
		c.count.Add(-1)
		c.bytes.Add(-st.bytes())
	}
}

// evict removes the least recently used of a few entries in the next nonempty shard. It never removes the entry keep.
// It returns false if no such entry exists. The iteration order of a map is random, so the first entries are a sample.
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

// removeIf removes every statement for which gone returns true.
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

// each calls f for every statement in no particular order.
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
