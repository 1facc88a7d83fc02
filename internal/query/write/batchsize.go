// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// This file warns of batches and refuses what is too large, where Cassandra does and in its words.

// unloggedPartitionsWarn is the number of partitions from which on an unlogged batch is warned of.
const unloggedPartitionsWarn = 11

// warnPartitions warns of an unlogged batch that is spread widely: it is neither atomic nor fast.
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

// batchWarnPart is the part of Options.BatchBytesMax from which on a batch is warned of.
const batchWarnPart = 10

// checkSize refuses a batch over several logical partitions that is too large, and warns of one that is on the way
// there. One over a single logical partition is as good as a large row, which nobody minds.
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

// warnLarge warns of logical partitions that are larger than they should be.
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

// checkRows refuses what changes too much of one row at once.
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

// checkMutations refuses what changes too much of one logical partition at once, in Cassandra's words.
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

// manyPartitions reports whether there are several logical partitions, where rows of two tables of a keyspace under one
// key are one.
func (x *Execution) manyPartitions() bool {
	for i := 1; i < x.used; i++ {
		if a, b := &x.groups[0], &x.groups[i]; a.table.Keyspace != b.table.Keyspace || !bytes.Equal(a.key, b.key) {
			return true
		}
	}
	return false
}
