// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// memory is an in-memory table. It is the simplest implementation of command.Read.
type memory struct {
	table      *schema.Table
	partitions []*memoryPartition
	reads      int // number of commands
}

type memoryPartition struct {
	token  token.Token
	key    []byte
	header []byte
	rows   []memoryRow
}

type memoryRow struct{ clustering, value []byte }

func (m *memory) partition(key []byte) *memoryPartition {
	p := &memoryPartition{token: token.Hash(key), key: key}
	i, found := slices.BinarySearchFunc(m.partitions, p, func(a, b *memoryPartition) int {
		return cmp.Or(a.token.Compare(b.token), bytes.Compare(a.key, b.key))
	})
	if !found {
		m.partitions = slices.Insert(m.partitions, i, p)
	}
	return m.partitions[i]
}

// apply merges an operand into a row. If header is true, it merges the operand into the partition's header.
func (m *memory) apply(key, clustering, operand []byte, header bool) error {
	p := m.partition(key)
	if header {
		merged, err := merge(p.header, operand)
		p.header = merged
		return err
	}
	i, found := slices.BinarySearchFunc(p.rows, clustering, func(r memoryRow, c []byte) int {
		return bytes.Compare(r.clustering, c)
	})
	if !found {
		p.rows = slices.Insert(p.rows, i, memoryRow{clustering: clustering})
	}
	merged, err := merge(p.rows[i].value, operand)
	p.rows[i].value = merged
	return err
}

func merge(old, operand []byte) ([]byte, error) {
	if old == nil {
		return bytes.Clone(operand), nil
	}
	return row.Merge(nil, old, operand)
}

// Read implements Reader. For an index lookup, it visits every row, because index entries are only hints.
func (m *memory) Read(ctx context.Context, r *command.Read, v command.Visitor) error {
	m.reads++
	for _, p := range m.partitions {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Key != nil && !bytes.Equal(r.Key, p.key) || r.Key == nil && !r.Range.Contains(p.token) {
			continue
		}
		resumed := false
		if r.AfterKey != nil {
			c := cmp.Or(p.token.Compare(r.AfterToken), bytes.Compare(p.key, r.AfterKey))
			if c < 0 || c == 0 && r.AfterPartition {
				continue
			}
			resumed = c == 0
		}
		step, err := m.visit(p, r, v, resumed)
		if err != nil {
			return fmt.Errorf("read: %w", err) // stores also wrap this error
		}
		if step == command.Stop {
			return nil
		}
	}
	return nil
}

func (m *memory) visit(p *memoryPartition, r *command.Read, v command.Visitor, resumed bool) (command.Step, error) {
	var header row.Header
	header.Clear()
	if p.header != nil {
		if err := header.Resolve(p.header, r.Now, r.Dropped); err != nil {
			return command.Stop, err
		}
	}
	type found struct {
		clustering []byte
		row        row.Row
	}
	var rows []found
	for _, stored := range p.rows {
		if !inSlices(r.Slices, stored.clustering) || resumed &&
			bytes.Compare(stored.clustering, r.AfterClustering) <= 0 {
			continue
		}
		var resolved row.Row
		exists, err := resolved.Resolve(stored.value, header.Covering(stored.clustering), r.Now, r.Dropped)
		if err != nil {
			return command.Stop, err
		}
		if exists {
			rows = append(rows, found{stored.clustering, resolved})
		}
	}
	if r.Reversed {
		slices.Reverse(rows)
	}
	if len(rows) == 0 && len(header.Static.Cells) == 0 {
		if r.Key != nil || resumed {
			return command.More, nil
		}
		return command.Passed(v, p.token, bytes.Clone(p.key), 1)
	}
	var static *row.Row
	if r.Statics && len(header.Static.Cells) > 0 {
		static = &header.Static
	}
	step, err := v.Partition(p.token, bytes.Clone(p.key), static)
	header.Static.Cells = nil
	if step != command.More || err != nil || r.NoRows {
		return step, err
	}
	scratch := make([]byte, 0, 256)
	for i := range rows {
		scratch = append(scratch[:0], rows[i].clustering...)
		step, err := v.Row(scratch, &rows[i].row)
		for j := range scratch { // the visitor's arguments are valid only during the call
			scratch[j] = 0xee
		}
		if step != command.More || err != nil {
			return step, err
		}
	}
	return command.More, nil
}

func inSlices(list []command.Slice, key []byte) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(s command.Slice) bool {
		return bytes.Compare(key, s.Start) >= 0 && (s.End == nil || bytes.Compare(key, s.End) < 0)
	})
}
