// SPDX-License-Identifier: Apache-2.0

package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

// walFile is a file of the write-ahead log, or the directory that contains it (F1).
type walFile struct {
	vfs.File
	fs *FS
}

// Write implements vfs.File.
func (f walFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.failIfOpen(err)
}

// WriteAt implements vfs.File.
func (f walFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.fs.failIfOpen(err)
}

// Sync implements vfs.File.
func (f walFile) Sync() error { return f.fs.failIfOpen(f.File.Sync()) }

// SyncData implements vfs.File.
func (f walFile) SyncData() error { return f.fs.failIfOpen(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f walFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.fs.failIfOpen(err)
}

// Close implements vfs.File.
func (f walFile) Close() error { return f.fs.failIfOpen(f.File.Close()) }

// copyDir is a directory of a checkpoint. It records the error of a sync, because Pebble panics if the sync of such a
// directory fails. Checkpoint returns this error (F4).
type copyDir struct {
	vfs.File
	fs *FS
}

// Sync implements vfs.File. The caller must hold copyMu.
func (d copyDir) Sync() error {
	if err := d.File.Sync(); err != nil && d.fs.copyFailed == nil {
		d.fs.copyFailed = err
	}
	return nil
}

// tableFile is a file that a flush or a compaction writes (F2).
type tableFile struct {
	vfs.File
	fs *FS
	// yields is true for a compaction, which can be postponed (F3). left is the number of bytes that may be written
	// before the next check of the free space.
	yields bool
	left   int
}

// Write implements vfs.File.
func (f *tableFile) Write(b []byte) (int, error) {
	if f.yields {
		if f.left -= len(b); f.left < 0 {
			if err := f.fs.checkFree(); err != nil {
				return 0, f.fs.delayError(err)
			}
			f.left = checkEvery
		}
	}
	n, err := f.File.Write(b)
	if err != nil {
		err = f.fs.delayError(err)
	}
	return n, err
}

// Sync implements vfs.File.
func (f *tableFile) Sync() error {
	err := f.File.Sync()
	if err != nil {
		err = f.fs.delayError(err)
	}
	return err
}

// SyncData implements vfs.File.
func (f *tableFile) SyncData() error {
	err := f.File.SyncData()
	if err != nil {
		err = f.fs.delayError(err)
	}
	return err
}
