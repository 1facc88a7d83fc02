// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// changes holds the changes of some tables. It consists of keys with table IDs and the values to merge. The changes
// may be added in any order. The zero value is empty.
type changes struct {
	values map[string][][]byte
	bytes  int
	entry  command.Entry
	key    []byte
}

// add adds a value. The caller must not modify the value afterward.
func (c *changes) add(key, value []byte) {
	if c.values == nil {
		c.values = map[string][][]byte{}
	}
	had := c.values[string(key)]
	if had == nil {
		c.bytes += len(key)
	}
	c.bytes += len(value)
	if keyKind(key) >= keys.Dedupe { // such a value is not merged; the newest value has precedence
		c.values[string(key)] = [][]byte{value}
		return
	}
	c.values[string(key)] = append(had, value)
}

// keyKind returns the kind of a key of a table.
func keyKind(key []byte) byte {
	if n := keys.PartitionLen(key); n > 0 && n < len(key) {
		return key[n]
	}
	return 0
}

// each calls fn for the changes in key order. It calls fn once per key.
func (c *changes) each(fn func(key, value []byte) error) error {
	var m row.Merger
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		values := c.values[key]
		value := values[0]
		if len(values) > 1 {
			m.Reset()
			for _, v := range values {
				if err := m.Add(v); err != nil {
					return fmt.Errorf("key %x: %w", key, err)
				}
			}
			value = m.Append(nil)
		}
		if err := fn([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}

// outcome is the effect of a log entry on the archiver.
type outcome struct {
	// merged is a partition that was merged into this partition. It includes the index of the partition's last entry.
	// If the entry merged no partition, Partition is 0.
	merged archive.EntryRange
	// never is set if the effect of the entry cannot be derived from the log.
	never bool
}

// apply adds the changes of a log entry. The caller must not modify the command afterward.
func (c *changes) apply(encoded []byte) (out outcome, err error) {
	e := &c.entry
	if err := command.DecodeEntry(e, encoded); err != nil {
		return out, err
	}
	switch e.Kind.Replay() {
	case command.ReplayRows:
		for i := range e.Mutations {
			if err := c.mutate(&e.Mutations[i]); err != nil {
				return out, err
			}
		}
		if m := &e.Mutations[0]; e.Result != nil && m.Dedupe != (command.DedupeID{}) {
			// These keys identify parts of atomic batches. A restore must know which parts have been applied.
			c.key = keys.AppendDedupe(c.key[:0], m.Table, m.Token, m.Key, m.Dedupe)
			c.add(c.key, e.Result)
		}
	case command.ReplayMerged:
		out.merged = archive.EntryRange{Partition: e.Merge.Right, Upto: e.Merge.Frozen}
	case command.ReplayNever:
		out.never = true
	case command.ReplayNothing:
	default:
		return out, fmt.Errorf("entry of kind %d: %w", e.Kind, command.ErrMalformed)
	}
	return out, nil
}

// mutate adds the operands of a mutation under the keys that they have in a store.
func (c *changes) mutate(m *command.Mutation) error {
	prefix := keys.AppendPartition(nil, m.Table, m.Token, m.Key)
	for i := range m.Ops {
		op := &m.Ops[i]
		if op.Kind.Replay() == command.ReplayNothing {
			continue
		}
		switch op.Kind {
		case command.OpRow:
			c.key = append(append(append(c.key[:0], prefix...), keys.Row), op.Clustering...)
			c.add(c.key, op.Operand)
		case command.OpHeader:
			deletions, static := row.Split(op.Operand)
			if deletions != nil {
				c.add(append(append(c.key[:0], prefix...), keys.Deletions), deletions)
			}
			if static != nil {
				c.add(append(append(c.key[:0], prefix...), keys.Static), static)
			}
		default:
			return fmt.Errorf("operand of kind %d: %w", op.Kind, command.ErrMalformed)
		}
	}
	return nil
}
