// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// descriptorWait is how long a store waits for a descriptor: clients that do not log in are gone by then.
	descriptorWait = time.Minute
	// descriptorRetry is the time between two tries.
	descriptorRetry = 10 * time.Millisecond
)

// patient is a file system that waits where the process, or the machine, has no descriptor left: that passes, and must
// not end a store that is open.
type patient struct {
	vfs.FS
	g *Guard
}

// Unwrap implements vfs.FS.
func (p patient) Unwrap() vfs.FS { return p.FS }

// await calls open until it needs no descriptor that is not there.
func (p patient) await(open func() (vfs.File, error)) (vfs.File, error) {
	file, err := open()
	if !descriptorsOut(err) || !p.g.used.Load() {
		return file, err
	}
	tick := time.NewTicker(descriptorRetry)
	defer tick.Stop()
	for began := time.Now(); descriptorsOut(err) && time.Since(began) < descriptorWait; file, err = open() {
		select {
		case <-tick.C:
		case <-p.g.closing:
			return file, err
		}
	}
	return file, err
}

func descriptorsOut(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Create implements vfs.FS.
func (p patient) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.await(func() (vfs.File, error) { return p.FS.Create(name, c) })
}

// Open implements vfs.FS.
func (p patient) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return p.await(func() (vfs.File, error) { return p.FS.Open(name, o...) })
}

// OpenReadWrite implements vfs.FS.
func (p patient) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return p.await(func() (vfs.File, error) { return p.FS.OpenReadWrite(name, c, o...) })
}

// OpenDir implements vfs.FS.
func (p patient) OpenDir(name string) (vfs.File, error) {
	return p.await(func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// ReuseForWrite implements vfs.FS.
func (p patient) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.await(func() (vfs.File, error) { return p.FS.ReuseForWrite(before, name, c) })
}
