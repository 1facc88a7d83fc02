// SPDX-License-Identifier: Apache-2.0

package diskfs

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// spareShare, spareMin, and spareMax determine the space that a store needs in addition to the contents of its log.
	// The space is 1/128 of the disk, limited to between 1 and 256 MiB.
	spareShare = 128
	spareMin   = 1 << 20
	spareMax   = 256 << 20
)

// memtableShare and memtableMin limit the size of a memtable according to the size of the disk. The logs and the
// flushes of up to six memtables in each of two stores must fit into the space that is kept free. Each log is slightly
// larger than its memtable.
const (
	memtableShare = 256
	memtableMin   = 1 << 20
)

// MemtableBytes returns the suitable size of a memtable for the disk of dir. The result does not exceed asked.
func MemtableBytes(usage UsageFunc, dir string, asked int64) int64 {
	u, err := usage(dir)
	if err != nil || u.TotalBytes == 0 {
		return asked
	}
	return min(asked, max(memtableMin, int64(u.TotalBytes/memtableShare)))
}

// SpareBytes returns the number of bytes that a store needs to be opened and stopped cleanly, in addition to the
// contents of its log.
func SpareBytes(total uint64) uint64 { return min(max(total/spareShare, spareMin), spareMax) }

// CheckFreeSpace returns an error if the disk does not have enough space to open the store in dir. Open must replay and
// flush the log, and writes the contents of the log a second time before it removes the log. If the file system does
// not report its usage, CheckFreeSpace assumes that enough space is free.
func CheckFreeSpace(fs vfs.FS, dir string, usage UsageFunc) error {
	if usage == nil {
		usage = fs.GetDiskUsage
	}
	u, err := usage(dir)
	if err != nil || u.TotalBytes == 0 {
		return nil
	}
	need := SpareBytes(u.TotalBytes)
	names, _ := fs.List(dir)
	for _, name := range names {
		if strings.HasSuffix(name, LogSuffix) {
			if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil {
				need += uint64(info.Size())
			}
		}
	}
	if u.AvailBytes >= need {
		return nil
	}
	return fmt.Errorf("the disk is full: %s are free, but %s are required to start. No data is lost. Free at least %s",
		mebibytes(u.AvailBytes), mebibytes(need), mebibytes(need-u.AvailBytes))
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
