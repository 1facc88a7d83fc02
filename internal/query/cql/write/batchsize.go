// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// The functions in this file warn about large batches and reject batches that are too large. The thresholds and the
// texts are the same as in Cassandra.

// unloggedPartitionsWarn is the minimum number of partitions for which an unlogged batch causes a warning.
const unloggedPartitionsWarn = 11

// warnPartitions adds a warning about an unlogged batch of many partitions. Such a batch is neither atomic nor fast.
func (x *Execution) warnPartitions() {
	if x.changes.groups.used < unloggedPartitionsWarn {
		return
	}
	tables := x.changes.groups.tableNames()
	plural := "s"
	if len(tables) == 1 {
		plural = ""
	}
	x.outcome.Warnings = append(x.outcome.Warnings,
		fmt.Sprintf("Unlogged batch covering %d partitions detected against table%s [%s]. You should use a logged "+
			"batch for atomicity, or asynchronous writes for performance.",
			x.changes.groups.used, plural, strings.Join(tables, ", ")))
}

func (s *groupSet) tableNames() (names []string) {
	for i := range s.all() {
		t := s.list[i].table
		if name := t.Keyspace + "." + t.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// batchWarnPart determines which batches cause a warning. The threshold is Options.BatchBytesMax divided by
// batchWarnPart.
const batchWarnPart = 10

// checkSize checks the size of a batch of several logical partitions. It rejects a batch that is too large and adds a
// warning about a large batch. Batches of one logical partition are not checked, because they are comparable to large
// rows.
func (x *Execution) checkSize() error {
	refuse := x.executor.opts.BatchBytesMax
	warn := refuse / batchWarnPart
	of, groups := x.executor.opts.dataSizes(), &x.changes.groups
	if refuse == 0 || !groups.sizeMayExceed(of, warn) || !groups.manyPartitions() {
		return nil
	}
	most, size := 0, 0
	for i := range groups.all() {
		most += groups.list[i].dataSizeMost(of)
	}
	if most <= warn {
		return nil
	}
	for i := range groups.all() {
		size += groups.list[i].dataSize(of)
	}
	if size > refuse {
		return dberr.Invalidf("Batch too large")
	}
	if size > warn {
		x.outcome.Warnings = append(x.outcome.Warnings,
			fmt.Sprintf("Batch for [%s] is of size %d, exceeding specified threshold of %d by %d.",
				strings.Join(x.changes.groups.tableNames(), ", "), size, warn, size-warn))
	}
	return nil
}

// warnLarge appends warnings about logical partitions that are too large.
func (s *groupSet) warnLarge(o *Options, warnings []string) []string {
	if o.Large == nil {
		return warnings
	}
	for i := range s.all() {
		if text := o.Large.Large(s.list[i].table.ID, s.list[i].token); text != "" {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// checkSizes rejects changes that write too many bytes to one row or to one logical partition. The errors have
// Cassandra's error texts.
func (x *changes) checkSizes(o *Options) error {
	// The arena contains the operands of all groups. If the arena does not exceed a limit, no group exceeds the limit.
	most := len(x.arena)
	if o.RowBytesMax > 0 && most > o.RowBytesMax {
		if err := x.groups.checkRows(o.RowBytesMax); err != nil {
			return err
		}
	}
	if o.MutationBytesMax > 0 && most > o.MutationBytesMax {
		return x.groups.checkMutations(o.MutationBytesMax)
	}
	return nil
}

func (s *groupSet) checkRows(most int) error {
	for i := range s.all() {
		g := &s.list[i]
		for j := range g.ops {
			if size := len(g.key) + len(g.ops[j].Clustering) + len(g.ops[j].Operand); size > most {
				return dberr.Invalidf("Row of %d bytes is too large for the maximum size of %d", size, most)
			}
		}
	}
	return nil
}

func (s *groupSet) checkMutations(most int) error {
	for i := range s.all() {
		g := &s.list[i]
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

// manyPartitions reports whether the write changes several logical partitions. As in Cassandra, two partitions with the
// same key in different tables of a keyspace count as one partition.
func (s *groupSet) manyPartitions() bool {
	for i := 1; i < s.used; i++ {
		if a, b := &s.list[0], &s.list[i]; a.table.Keyspace != b.table.Keyspace || !bytes.Equal(a.key, b.key) {
			return true
		}
	}
	return false
}
