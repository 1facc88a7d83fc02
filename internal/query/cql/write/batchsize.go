// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// This file warns about large batches and rejects batches that are too large, at Cassandra's thresholds and with its
// texts.

// unloggedPartitionsWarn is the number of partitions from which an unlogged batch causes a warning.
const unloggedPartitionsWarn = 11

// warnPartitions warns about an unlogged batch over many partitions, which is neither atomic nor fast.
func (x *Execution) warnPartitions() {
	if x.used < unloggedPartitionsWarn {
		return
	}
	tables := x.tableNames()
	plural := "s"
	if len(tables) == 1 {
		plural = ""
	}
	x.outcome.Warnings = append(x.outcome.Warnings,
		fmt.Sprintf("Unlogged batch covering %d partitions detected against table%s [%s]. You should use a logged "+
			"batch for atomicity, or asynchronous writes for performance.",
			x.used, plural, strings.Join(tables, ", ")))
}

func (x *Execution) tableNames() (names []string) {
	for i := range x.groups[:x.used] {
		t := x.groups[i].table
		if name := t.Keyspace + "." + t.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// batchWarnPart divides Options.BatchBytesMax to obtain the size from which a batch causes a warning.
const batchWarnPart = 10

// checkSize rejects a batch over several logical partitions that is too large, and warns about a large one. A batch
// over one logical partition is not checked, because it is comparable to a large row.
func (x *Execution) checkSize() error {
	refuse := x.executor.opts.BatchBytesMax
	warn := refuse / batchWarnPart
	if refuse == 0 || !x.sizeMayExceed(warn) || !x.manyPartitions() {
		return nil
	}
	of, most, size := x.dataSizes(), 0, 0
	for i := range x.groups[:x.used] {
		most += x.groups[i].dataSizeMost(of)
	}
	if most <= warn {
		return nil
	}
	for i := range x.groups[:x.used] {
		size += x.groups[i].dataSize(of)
	}
	if size > refuse {
		return dberr.Invalidf("Batch too large")
	}
	if size > warn {
		x.outcome.Warnings = append(x.outcome.Warnings,
			fmt.Sprintf("Batch for [%s] is of size %d, exceeding specified threshold of %d by %d.",
				strings.Join(x.tableNames(), ", "), size, warn, size-warn))
	}
	return nil
}

// warnLarge warns about logical partitions that are too large.
func (x *Execution) warnLarge() {
	large := x.executor.opts.DescribeLargePartition
	if large == nil {
		return
	}
	for i := range x.groups[:x.used] {
		if text := large(x.groups[i].table.ID, x.groups[i].token); text != "" {
			x.outcome.Warnings = append(x.outcome.Warnings, text)
		}
	}
}

// checkRows rejects a write that changes too many bytes of one row.
func (x *Execution) checkRows() error {
	most := x.executor.opts.RowBytesMax
	if most == 0 || len(x.arena) <= most {
		return nil // the operands of all groups are in the arena
	}
	for i := range x.groups[:x.used] {
		g := &x.groups[i]
		for j := range g.ops {
			if size := len(g.key) + len(g.ops[j].Clustering) + len(g.ops[j].Operand); size > most {
				return dberr.Invalidf("Row of %d bytes is too large for the maximum size of %d", size, most)
			}
		}
	}
	return nil
}

// checkMutations rejects a write that changes too many bytes of one logical partition, with Cassandra's text.
func (x *Execution) checkMutations() error {
	if err := x.checkRows(); err != nil {
		return err
	}
	most := x.executor.opts.MutationBytesMax
	if most == 0 || len(x.arena) <= most {
		return nil // the operands of all groups are in the arena
	}
	for i := range x.groups[:x.used] {
		g := &x.groups[i]
		size := len(g.key)
		for j := range g.ops {
			size += len(g.ops[j].Clustering) + len(g.ops[j].Operand)
		}
		if size > most {
			return dberr.Invalidf("Mutation of %d bytes is too large for the maximum size of %d", size, most)
		}
	}
	return nil
}

// manyPartitions reports whether the write changes several logical partitions. As in Cassandra, rows of two tables of a
// keyspace with the same key count as one partition.
func (x *Execution) manyPartitions() bool {
	for i := 1; i < x.used; i++ {
		if a, b := &x.groups[0], &x.groups[i]; a.table.Keyspace != b.table.Keyspace || !bytes.Equal(a.key, b.key) {
			return true
		}
	}
	return false
}
