// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// Batch collects the writes of many groups. After Commit, the batch is empty and can be reused. A batch is not safe for
// concurrent use. Two batches may be used concurrently if they write to different groups.
type Batch struct {
	s       *Store
	b       *pebble.Batch
	effects []effect
}

// effect is a change in memory that becomes visible on commit.
type effect struct {
	g           *Group
	kind        effectKind
	entries     []*pb.Entry
	index, term uint64 // commit index and term of a hard state
	vote        uint64
	conf        *pb.ConfState
}

type effectKind uint8

const (
	effectAppend effectKind = iota
	effectHardState
	effectConfState
	effectTruncate
	effectInstall
	effectReset
	effectDestroy
)

// pointDeletes is the maximum number of overwritten keys that are deleted individually. A range deletion is used only
// for more keys, because it slows down reads of the memtable.
const pointDeletes = 64

// NewBatch returns an empty batch.
func (s *Store) NewBatch() *Batch { return &Batch{s: s, b: s.db.NewBatch()} }

// Append writes entries. The entries must continue the log or overwrite the end of the log. Append deletes the rest of
// the overwritten end.
func (b *Batch) Append(group uint64, entries []*pb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	first, last := entries[0].GetIndex(), entries[len(entries)-1].GetIndex()
	if first > g.written+1 || last-first+1 != uint64(len(entries)) {
		return fmt.Errorf("group %d: entries %d to %d do not continue the log, which ends at %d", group, first, last,
			g.written)
	}
	b.cutTail(g, last)
	for _, e := range entries {
		d := b.b.SetDeferred(entryKeyLen, entryHead+len(e.Data))
		putEntryKey(d.Key, group, e.GetIndex())
		appendUints(d.Value[:0], e.GetTerm())
		d.Value[8] = byte(e.GetType())
		copy(d.Value[entryHead:], e.Data)
		_ = d.Finish() // Finish fails only for indexed batches
	}
	g.written, g.exists = last, true
	b.effects = append(b.effects, effect{g: g, kind: effectAppend, entries: entries})
	return nil
}

// cutTail deletes the entries after the new last entry (RL3).
func (b *Batch) cutTail(g *Group, last uint64) {
	if g.written <= last {
		return
	}
	if g.written-last > pointDeletes {
		_ = b.b.DeleteRange(entryKey(g.id, last+1), entryKey(g.id, g.written+1), nil)
		return
	}
	for i := last + 1; i <= g.written; i++ {
		_ = b.b.Delete(entryKey(g.id, i), nil)
	}
}

// SetHardState writes term, vote, and commit.
func (b *Batch) SetHardState(group, term, vote, commit uint64) error {
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	d := b.b.SetDeferred(9, 24)
	appendUints(d.Key[:0], group)
	d.Key[8] = kindHardState
	appendUints(d.Value[:0], term, vote, commit)
	_ = d.Finish()
	g.exists = true
	b.effects = append(b.effects, effect{g: g, kind: effectHardState, term: term, vote: vote, index: commit})
	return nil
}

// SetConfState writes the members. The members in the group's state machine take precedence, because they correspond to
// the applied index.
func (b *Batch) SetConfState(group uint64, cs *pb.ConfState) error {
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	_ = b.b.Set(recordKey(group, kindConfState), appendConfState(nil, cs), nil)
	g.exists = true
	b.effects = append(b.effects, effect{g: g, kind: effectConfState, conf: proto.CloneOf(cs)})
	return nil
}

// Truncate removes the entries with indexes up to index. term is the term of the entry at index. The state that results
// from the removed entries must be durable. Truncate has no effect if the entry at index has already been removed.
func (b *Batch) Truncate(group, index, term uint64) error {
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	if index > g.written {
		return fmt.Errorf("group %d: truncate at %d beyond the last entry %d", group, index, g.written)
	}
	if index <= g.removed {
		return nil
	}
	g.removed = index
	_ = b.b.DeleteRange(entryKey(group, 0), entryKey(group, index+1), nil)
	_ = b.b.Set(recordKey(group, kindTruncated), appendUints(nil, index, term), nil)
	b.effects = append(b.effects, effect{g: g, kind: effectTruncate, index: index, term: term})
	return nil
}

// Install records that the installation of a snapshot at index begins. The state may be ahead of the log until Reset is
// called. Index 0 removes the record.
func (b *Batch) Install(group, index uint64) error {
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	_ = b.b.Set(recordKey(group, kindInstall), appendUints(nil, index), nil)
	g.exists = true
	b.effects = append(b.effects, effect{g: g, kind: effectInstall, index: index})
	return nil
}

// Reset replaces the log with an empty log that starts after a snapshot. The snapshot must have been installed durably.
func (b *Batch) Reset(group, index, term uint64, cs *pb.ConfState) error {
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	_ = b.b.DeleteRange(entryKey(group, 0), groupEnd(group), nil)
	b.begin(g, index, term, cs)
	return nil
}

// begin writes a truncated state with its members.
func (b *Batch) begin(g *Group, index, term uint64, cs *pb.ConfState) {
	_ = b.b.Set(recordKey(g.id, kindTruncated), appendUints(nil, index, term), nil)
	_ = b.b.Set(recordKey(g.id, kindConfState), appendConfState(nil, cs), nil)
	g.written, g.removed, g.exists = index, index, true
	b.effects = append(b.effects, effect{g: g, kind: effectReset, index: index, term: term, conf: proto.CloneOf(cs)})
}

// Create creates a log that starts after index for a group without records. It also writes a hard state with the given
// term and with index as the commit index. If the group has a record, Create returns false and has no effect (RL4).
func (b *Batch) Create(group, index, term uint64, cs *pb.ConfState) (bool, error) {
	g, err := b.s.Group(group)
	if err != nil || g.exists {
		return false, err
	}
	b.begin(g, index, term, cs)
	return true, b.SetHardState(group, term, 0, index)
}

// Destroy removes all records of a group.
func (b *Batch) Destroy(group uint64) error {
	g, err := b.s.Group(group)
	if err != nil {
		return err
	}
	_ = b.b.DeleteRange(groupKey(group), groupEnd(group), nil)
	g.written, g.removed, g.exists = 0, 0, false
	b.effects = append(b.effects, effect{g: g, kind: effectDestroy})
	return nil
}

// groupEnd returns the first key after the keys of a group.
func groupEnd(group uint64) []byte {
	return recordKey(group, kindInstall+1)
}

// Len returns the size of the batch in bytes.
func (b *Batch) Len() int { return b.b.Len() }

// Commit writes the batch atomically and makes it visible to readers. If sync is true, Commit makes this batch and all
// earlier batches durable (RL1). After an error, the store rejects all further writes (RL5).
func (b *Batch) Commit(sync bool) error {
	if err := b.s.Failed(); err != nil {
		return err
	}
	if b.b.Empty() && !sync {
		return nil
	}
	mode := pebble.NoSync
	if sync {
		mode = pebble.Sync
		b.s.syncs.Add(1)
	}
	err := error(nil)
	if b.b.Empty() {
		err = b.s.db.LogData(nil, mode)
	} else {
		err = b.b.Commit(mode)
	}
	if err != nil {
		return b.s.fail(fmt.Errorf("commit: %w", err))
	}
	b.s.commits.Add(1)
	for i := range b.effects {
		b.effects[i].show()
	}
	if invariant.Enabled {
		b.checkInvariants()
	}
	clear(b.effects)
	b.effects = b.effects[:0]
	b.b.Reset()
	b.s.evictCaches()
	return nil
}

// show makes the committed change visible to readers.
func (e *effect) show() {
	g := e.g
	switch e.kind {
	case effectAppend:
		g.keep(e.entries)
	case effectTruncate:
		g.truncated(e.index, e.term)
	case effectInstall:
		g.mu.Lock()
		g.installing = e.index
		g.mu.Unlock()
	case effectReset:
		g.restart(e.index, e.term, e.conf)
	case effectDestroy:
		g.s.forget(g)
	case effectHardState:
		g.mu.Lock()
		g.term, g.vote, g.commit = e.term, e.vote, e.index
		g.mu.Unlock()
	case effectConfState:
		g.mu.Lock()
		g.conf = e.conf
		g.mu.Unlock()
	}
}

// Close discards the batch.
func (b *Batch) Close() error { return b.b.Close() }
