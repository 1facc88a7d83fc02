// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Group is the log of one group. It provides all committed entries, including entries that are not synced. It is safe
// for concurrent use.
type Group struct {
	s  *Store
	id uint64

	// written is the last index in a batch, including uncommitted batches. removed is the index up to which entries
	// have been truncated. exists reports whether the group has a record. Only the writer uses these fields, without a
	// lock.
	written, removed uint64
	exists           bool

	mu                 sync.Mutex
	term, vote, commit uint64
	conf               *pb.ConfState
	// cut and cutTerm are the index and the term of the last removed entry. Invariant: cut <= last.
	cut, cutTerm uint64
	last         uint64
	// installing is the index of a snapshot whose installation is in progress or was interrupted by a crash. It is 0 if
	// no such snapshot exists.
	installing uint64
	// cache holds the entries from cacheFirst to last. cacheFirst is last+1 if the cache is empty.
	cache      []*pb.Entry
	cacheFirst uint64
	cacheBytes int64
	// termStarts holds the first index of each term of the entries that were appended since the group was loaded.
	termStarts []termStart
}

// termStart is the first entry of a term in the log.
type termStart struct{ index, term uint64 }

// load reads a group's records and finds its last entry.
func (s *Store) load(id uint64) (*Group, error) {
	g := &Group{s: s, id: id, conf: pb.EnsureConfState(&pb.ConfState{})}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: groupKey(id), UpperBound: entryKey(id, math.MaxUint64)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = it.Close() }()
	for ok := it.First(); ok && it.Key()[8] != kindEntry; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		switch it.Key()[8] {
		case kindHardState:
			err = readUints(value, &g.term, &g.vote, &g.commit)
		case kindTruncated:
			err = readUints(value, &g.cut, &g.cutTerm)
		case kindConfState:
			g.conf, err = decodeConfState(value)
		default:
			err = fmt.Errorf("record of kind %d: %w", it.Key()[8], ErrCorrupt)
		}
		if err != nil {
			return nil, err
		}
		g.exists = true
	}
	g.last = g.cut
	if it.Last() && it.Key()[8] == kindEntry {
		if i := entryIndex(it.Key()); i > g.cut {
			g.last, g.exists = i, true
		}
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	g.written, g.removed, g.cacheFirst = g.last, g.cut, g.last+1
	return g, g.loadInstalling()
}

// Exists reports whether the group has a record. Only the writer may call Exists.
func (g *Group) Exists() bool { return g.exists }

// InitialState returns copies of the hard state and the conf state.
func (g *Group) InitialState() (*pb.HardState, *pb.ConfState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	term, vote, commit := g.term, g.vote, g.commit
	return &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}, proto.CloneOf(g.conf), nil
}

// FirstIndex returns the index of the first entry that can be read.
func (g *Group) FirstIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cut + 1, nil
}

// LastIndex returns the index of the last entry, or of the truncated state.
func (g *Group) LastIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last, nil
}

func (g *Group) loadInstalling() error {
	value, closer, err := g.s.db.Get(recordKey(g.id, kindInstall))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(readUints(value, &g.installing), closer.Close())
}

// Installing returns the index of a snapshot whose installation has begun and has not been completed by a Reset, or 0.
func (g *Group) Installing() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.installing
}

// Snapshot returns the truncated state as metadata without data.
func (g *Group) Snapshot() (*pb.Snapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	index, term := g.cut, g.cutTerm
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: proto.CloneOf(g.conf)}},
		nil
}

// Term returns the term of an entry. It also works for the last truncated entry.
func (g *Group) Term(index uint64) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case index == g.cut:
		return g.cutTerm, nil
	case index < g.cut:
		return 0, raft.ErrCompacted
	case index > g.last:
		return 0, raft.ErrUnavailable
	}
	// The search does not use the cached entries, because they are rarely in the CPU caches, and the library requests a
	// term for every message.
	for i := len(g.termStarts) - 1; i >= 0; i-- {
		if index >= g.termStarts[i].index {
			return g.termStarts[i].term, nil
		}
	}
	value, closer, err := g.s.db.Get(entryKey(g.id, index))
	if err != nil {
		return 0, g.readError(index, err)
	}
	e, err := decodeEntry(index, value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return 0, err
	}
	return e.GetTerm(), nil
}

// readError distinguishes a gap in the log, which means corruption, from a disk error.
func (g *Group) readError(index uint64, err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		err = fmt.Errorf("entry is missing: %w", ErrCorrupt)
	}
	return fmt.Errorf("group %d, entry %d: %w", g.id, index, err)
}

// Entries returns the entries in [lo, hi) up to maxBytes. It returns at least one entry. The caller must not modify the
// entries.
func (g *Group) Entries(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lo <= g.cut {
		return nil, raft.ErrCompacted
	}
	if hi > g.last+1 {
		return nil, raft.ErrUnavailable
	}
	if lo >= hi {
		return nil, nil
	}
	var out []*pb.Entry
	var size uint64
	if lo < g.cacheFirst {
		var err error
		if out, size, err = g.read(lo, min(hi, g.cacheFirst), maxBytes); err != nil {
			return nil, err
		}
		if lo += uint64(len(out)); lo < g.cacheFirst {
			return out, nil
		}
	} else {
		out = make([]*pb.Entry, 0, hi-lo)
	}
	for ; lo < hi; lo++ {
		e := g.cache[lo-g.cacheFirst]
		if size += uint64(protoSize(e)); size > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// read returns entries from the store.
func (g *Group) read(lo, hi, maxBytes uint64) (out []*pb.Entry, size uint64, err error) {
	it, err := g.s.db.NewIter(&pebble.IterOptions{LowerBound: entryKey(g.id, lo), UpperBound: entryKey(g.id, hi)})
	if err != nil {
		return nil, 0, err
	}
	next := lo
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if entryIndex(it.Key()) != next {
			break
		}
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var e *pb.Entry
		if e, err = decodeEntry(next, append([]byte(nil), value...)); err != nil {
			break
		}
		if size += uint64(protoSize(e)); size > maxBytes && len(out) > 0 {
			return out, size, it.Close()
		}
		out, next = append(out, e), next+1
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return nil, 0, fmt.Errorf("group %d, entry %d: %w", g.id, next, err)
	}
	if next < hi {
		return nil, 0, g.readError(next, pebble.ErrNotFound)
	}
	return out, size, nil
}

// protoSize returns the approximate size of an entry in the library's encoding.
func protoSize(e *pb.Entry) int { return len(e.Data) + 16 }

// keep adds committed entries to the cache.
func (g *Group) keep(entries []*pb.Entry) {
	first := entries[0].GetIndex()
	g.mu.Lock()
	before := g.cacheBytes
	if first < g.cacheFirst || first > g.last+1 {
		g.cache, g.cacheFirst, g.cacheBytes = nil, first, 0
	} else {
		for _, e := range g.cache[first-g.cacheFirst:] {
			g.cacheBytes -= entryBytes(e)
		}
		clear(g.cache[first-g.cacheFirst:])
		g.cache = g.cache[:first-g.cacheFirst]
	}
	g.cache = append(g.cache, entries...)
	for _, e := range entries {
		g.cacheBytes += entryBytes(e)
	}
	g.last = entries[len(entries)-1].GetIndex()
	g.noteTerms(entries)
	g.trim(g.s.opts.GroupCacheBytes)
	g.s.cached.Add(g.cacheBytes - before)
	g.mu.Unlock()
}

// noteTerms records the terms of appended entries. The caller must hold mu.
func (g *Group) noteTerms(entries []*pb.Entry) {
	first := entries[0].GetIndex()
	for len(g.termStarts) > 0 && g.termStarts[len(g.termStarts)-1].index >= first {
		g.termStarts = g.termStarts[:len(g.termStarts)-1]
	}
	for _, e := range entries {
		if n := len(g.termStarts); n == 0 || g.termStarts[n-1].term != e.GetTerm() {
			g.termStarts = append(g.termStarts, termStart{e.GetIndex(), e.GetTerm()})
		}
	}
}

// trim drops the oldest half of the entries of a cache that exceeds the limit. The caller must hold mu.
func (g *Group) trim(bound int64) {
	if g.cacheBytes <= bound {
		return
	}
	n := 0
	for n < len(g.cache) && g.cacheBytes > bound/2 {
		g.cacheBytes -= entryBytes(g.cache[n])
		n++
	}
	g.cache = append([]*pb.Entry(nil), g.cache[n:]...)
	g.cacheFirst += uint64(n)
}

// evict drops the cache.
func (g *Group) evict() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s.cached.Add(-g.cacheBytes)
	g.cache, g.cacheFirst, g.cacheBytes = nil, g.last+1, 0
}

// truncated records that the entries up to index have been removed.
func (g *Group) truncated(index, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut, g.cutTerm = index, term
	for len(g.termStarts) > 1 && g.termStarts[1].index <= index {
		g.termStarts = g.termStarts[1:]
	}
	n := 0
	for n < len(g.cache) && g.cacheFirst+uint64(n) <= index {
		g.cacheBytes -= entryBytes(g.cache[n])
		g.s.cached.Add(-entryBytes(g.cache[n]))
		n++
	}
	if n > 0 {
		g.cache = append([]*pb.Entry(nil), g.cache[n:]...)
		g.cacheFirst += uint64(n)
	}
}

// restart replaces the log with an empty log that starts after a truncated state.
func (g *Group) restart(index, term uint64, cs *pb.ConfState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s.cached.Add(-g.cacheBytes)
	g.cut, g.cutTerm, g.last, g.conf, g.installing = index, term, index, cs, 0
	g.cache, g.cacheFirst, g.cacheBytes, g.termStarts = nil, index+1, 0, nil
}
