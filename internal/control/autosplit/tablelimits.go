// SPDX-License-Identifier: Apache-2.0

package autosplit

import "github.com/ilion-db/ilion/internal/model/schema"

// TableLimits determines the maximum sizes of the partitions of tables.
type TableLimits struct {
	// Tables finds a user table by its ID.
	Tables interface {
		UserTable(id uint32) *schema.Table
	}
	// StorageCap is the maximum size, in bytes, of a partition whose table sets no maximum.
	StorageCap uint64
}

// SizeLimit returns the maximum size of a table's partitions in bytes, or 0 for system tables.
func (l TableLimits) SizeLimit(table uint32) uint64 {
	t := l.Tables.UserTable(table)
	if t == nil {
		return 0
	}
	if most := t.Options.StorageCap(); most > 0 {
		return most
	}
	return l.StorageCap
}

// MergeSizeLimit returns the result of SizeLimit, or 0 for tables without automatic merges.
func (l TableLimits) MergeSizeLimit(table uint32) uint64 {
	if t := l.Tables.UserTable(table); t != nil && t.Options.MergesOff {
		return 0
	}
	return l.SizeLimit(table)
}
