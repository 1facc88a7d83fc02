// SPDX-License-Identifier: Apache-2.0

package guard

import "github.com/cockroachdb/pebble/v2/vfs"

// logFile is a file of the log, or its directory (F1).
type logFile struct {
	vfs.File
	g *Guard
}

// Write implements vfs.File.
func (f logFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.g.must(err)
}

// WriteAt implements vfs.File.
func (f logFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.g.must(err)
}

// Sync implements vfs.File.
func (f logFile) Sync() error { return f.g.must(f.File.Sync()) }

// SyncData implements vfs.File.
func (f logFile) SyncData() error { return f.g.must(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f logFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.g.must(err)
}

// Close implements vfs.File.
func (f logFile) Close() error { return f.g.must(f.File.Close()) }

// copyDir is a directory of a checkpoint. Pebble panics when it cannot be synced, so that is told after the checkpoint
// (F4).
type copyDir struct {
	vfs.File
	g *Guard
}

// Sync implements vfs.File. It is called by whoever holds copying.
func (d copyDir) Sync() error {
	if err := d.File.Sync(); err != nil && d.g.copyFailed == nil {
		d.g.copyFailed = err
	}
	return nil
}

// tableFile is what a flush or a compaction writes (F2).
type tableFile struct {
	vfs.File
	g *Guard
	// yields is true for a compaction, which may be put off (F3); left is how much it writes before it looks again.
	yields bool
	left   int
}

// Write implements vfs.File.
func (f *tableFile) Write(b []byte) (int, error) {
	if f.yields {
		if f.left -= len(b); f.left < 0 {
			if err := f.g.room(); err != nil {
				return 0, f.g.later(err)
			}
			f.left = lookEvery
		}
	}
	n, err := f.File.Write(b)
	if err != nil {
		err = f.g.later(err)
	}
	return n, err
}

// Sync implements vfs.File.
func (f *tableFile) Sync() error {
	err := f.File.Sync()
	if err != nil {
		err = f.g.later(err)
	}
	return err
}

// SyncData implements vfs.File.
func (f *tableFile) SyncData() error {
	err := f.File.SyncData()
	if err != nil {
		err = f.g.later(err)
	}
	return err
}
