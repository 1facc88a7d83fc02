// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// place is the position of a command in a log. written identifies a write by its ID and key. A write must have exactly
// one place, and the place must be the same on all nodes. Repetitions, splits, and merges must not change the place.
type (
	place struct {
		group, index uint64
		command      int
	}
	written struct {
		id  command.DedupeID
		key string
	}
)

// exactlyOnce checks that each write is applied in exactly one place. It checks one process run of a node. It also
// checks that the leaders' timestamps of a key never decrease, regardless of the partition that holds the key.
type exactlyOnce struct {
	raftgroup.StateMachine
	w      *simulation
	n      *node
	e      command.Entry
	stamps map[string]int64
}

// Apply implements raftgroup.StateMachine.
func (o *exactlyOnce) Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error) {
	before := len(results)
	o.n.partialCrashState.amid = o.changes(commands)
	defer func() { o.n.partialCrashState.amid = false }()
	results, err := o.StateMachine.Apply(group, index, term, commands, results)
	for i, result := range results[before:] {
		if _, refused := result.(error); refused {
			continue
		}
		if err := command.DecodeEntry(&o.e, commands[i]); err != nil {
			return results, err
		}
		at := place{group, index, i}
		if o.e.Kind == command.EntryTruncate && o.e.ID != (command.DedupeID{}) {
			id := written{id: o.e.ID, key: "TRUNCATE"}
			if first, ok := o.w.applied[id]; ok && first != at {
				o.w.Fail("truncation %v is applied at %+v and at %+v", id.id, first, at)
			}
			o.w.applied[id] = at
		}
		if o.e.Kind != command.EntryWrite {
			continue
		}
		for i := range o.e.Mutations {
			m := &o.e.Mutations[i]
			key := string(keys.AppendPartition(nil, m.Table, m.Token, m.Key))
			if m.Timestamp < o.stamps[key] {
				o.w.Fail("a write of key %q has timestamp %d at %+v, but an earlier write has %d", m.Key, m.Timestamp, at,
					o.stamps[key])
			}
			o.stamps[key] = m.Timestamp
			o.w.loggedItems(m)
		}
		if o.e.Mutations[0].Dedupe == (command.DedupeID{}) {
			continue
		}
		id := written{o.e.Mutations[0].Dedupe, string(o.e.Mutations[0].Key)}
		if first, ok := o.w.applied[id]; ok && first != at {
			o.w.Fail("write %v of key %q is applied at %+v and at %+v", id.id, id.key, first, at)
		}
		o.w.applied[id] = at
	}
	return results, err
}

// changes reports whether a command changes the token range of a partition or freezes it.
func (o *exactlyOnce) changes(commands [][]byte) bool {
	for _, c := range commands {
		if command.DecodeEntry(&o.e, c) != nil {
			return false
		}
		switch o.e.Kind {
		case command.EntrySplit, command.EntryFreeze, command.EntryUnfreeze, command.EntryMerge:
			return true
		}
	}
	return false
}
