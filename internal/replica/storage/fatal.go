// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrBroken says that the disk did not take what had to be written. Nothing is written any more: what is on it now is
// only known after the next Open.
var ErrBroken = errors.New("the store cannot go on")

// broken ends serving for good and never returns: Pebble must not see the error, since it would end the process with a
// stack trace, in places by a fatal error that nobody can recover from. Who called waits until the owner, who is told
// by Events.Fatal, ends the process.
func (s *engine) broken(text string) {
	err := fmt.Errorf("%w: %s", ErrBroken, strings.TrimPrefix(text, "pebble: "))
	if s.o.Events.Fatal == nil {
		panic(err)
	}
	if s.failed.CompareAndSwap(nil, &err) {
		s.o.Events.Fatal(err)
	}
	select {}
}

// logSuffix is that of the files of the write-ahead log.
const logSuffix = ".log"

// logFS is a file system on which the log of an open store cannot fail: an error breaks the store. While the store is
// being opened errors are returned.
type logFS struct {
	vfs.FS
	s *engine
}

// must breaks the store if there is an error and the store is open.
func (s *engine) must(err error) error {
	if err != nil && s.inUse.Load() {
		s.broken(err.Error())
	}
	return err
}

func (f logFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, logSuffix) || f.s.must(err) != nil {
		return file, err
	}
	return logFile{file, f.s}, nil
}

// Create implements vfs.FS.
func (f logFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.wrap(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (f logFS) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(before, name, c)
	return f.wrap(name, file, err)
}

// OpenDir implements vfs.FS: a new log is not safe before its directory is.
func (f logFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if f.s.must(err) != nil {
		return nil, err
	}
	return logFile{dir, f.s}, nil
}

// Unwrap implements vfs.FS.
func (f logFS) Unwrap() vfs.FS { return f.FS }

// logFile is a file of the log.
type logFile struct {
	vfs.File
	s *engine
}

// Write implements vfs.File.
func (f logFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.s.must(err)
}

// WriteAt implements vfs.File.
func (f logFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.s.must(err)
}

// Sync implements vfs.File.
func (f logFile) Sync() error { return f.s.must(f.File.Sync()) }

// SyncData implements vfs.File.
func (f logFile) SyncData() error { return f.s.must(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f logFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.s.must(err)
}

// Close implements vfs.File.
func (f logFile) Close() error { return f.s.must(f.File.Close()) }
