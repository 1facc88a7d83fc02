// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// descriptorRetry is the time between two tries to get a descriptor where the reserve has none left.
const descriptorRetry = 10 * time.Millisecond

// patient is a file system that takes from the reserve, or waits, where the process or the machine has no descriptor
// left: that passes, and must not end a store that is open.
type patient struct {
	vfs.FS
	g *Guard
}

// Unwrap implements vfs.FS.
func (p patient) Unwrap() vfs.FS { return p.FS }

// await calls do until it needs no descriptor that is not there, or the store is closed. What do has done before it
// failed must not be in its way.
func await[T any](g *Guard, do func() (T, error)) (T, error) {
	out, err := do()
	if !descriptorsOut(err) || !g.used.Load() {
		return out, err
	}
	tick := time.NewTicker(descriptorRetry)
	defer tick.Stop()
	for ; descriptorsOut(err); out, err = do() {
		if g.o.Reserve.give() {
			continue
		}
		select {
		case <-tick.C:
		case <-g.closing:
			return out, err
		}
	}
	return out, err
}

func descriptorsOut(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Create implements vfs.FS.
func (p patient) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return await(p.g, func() (vfs.File, error) { return p.FS.Create(name, c) })
}

// Open implements vfs.FS.
func (p patient) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return await(p.g, func() (vfs.File, error) { return p.FS.Open(name, o...) })
}

// OpenReadWrite implements vfs.FS.
func (p patient) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return await(p.g, func() (vfs.File, error) { return p.FS.OpenReadWrite(name, c, o...) })
}

// OpenDir implements vfs.FS.
func (p patient) OpenDir(name string) (vfs.File, error) {
	return await(p.g, func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// List implements vfs.FS.
func (p patient) List(dir string) ([]string, error) {
	return await(p.g, func() ([]string, error) { return p.FS.List(dir) })
}

// RemoveAll implements vfs.FS.
func (p patient) RemoveAll(dir string) error {
	_, err := await(p.g, func() (struct{}, error) { return struct{}{}, p.FS.RemoveAll(dir) })
	return err
}

// ReuseForWrite implements vfs.FS. It renames first, and opens then: only the second can be tried again.
func (p patient) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Rename(before, name); err != nil {
		return nil, err
	}
	return p.OpenReadWrite(name, c)
}
