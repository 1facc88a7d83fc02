// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// spareShare, spareMin and spareMax bound what a store needs beside what its log holds: a 128th of the disk,
	// between 1 and 256 MiB.
	spareShare = 128
	spareMin   = 1 << 20
	spareMax   = 256 << 20
)

// memtableShare and memtableMin bound a memtable by the size of the disk: each reserves a log a little larger than
// itself, up to six of them, a flush writes as much, and a member of replica sets has two stores. All that must fit
// into what is kept free.
const (
	memtableShare = 256
	memtableMin   = 1 << 20
)

// Memtable is the size of a memtable, at most the one that is asked for, that the disk of dir has room for.
func Memtable(usage Usage, dir string, asked int64) int64 {
	u, err := usage(dir)
	if err != nil || u.TotalBytes == 0 {
		return asked
	}
	return min(asked, max(memtableMin, int64(u.TotalBytes/memtableShare)))
}

// Spare is how many bytes of a disk a store needs beside what its log holds, to be opened, and to be stopped in order.
func Spare(total uint64) uint64 { return min(max(total/spareShare, spareMin), spareMax) }

// Room refuses to open the store in dir if the disk has no room for that: its log is replayed and flushed, so what it
// holds is written once more before it is removed. Nothing was touched then. A file system that cannot say has room.
func Room(fs vfs.FS, dir string, usage Usage) error {
	if usage == nil {
		usage = fs.GetDiskUsage
	}
	u, err := usage(dir)
	if err != nil || u.TotalBytes == 0 {
		return nil
	}
	need := Spare(u.TotalBytes)
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
	return fmt.Errorf("its disk is full: %s are free and %s are needed to start; free at least %s there, nothing is lost",
		mebibytes(u.AvailBytes), mebibytes(need), mebibytes(need-u.AvailBytes))
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
