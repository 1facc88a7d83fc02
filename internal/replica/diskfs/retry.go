// SPDX-License-Identifier: Apache-2.0

package diskfs

import (
	"errors"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// descriptorRetry is the delay between two attempts to get a file descriptor when the reserve is empty.
const descriptorRetry = 10 * time.Millisecond

// retryFS retries operations that fail for lack of file descriptors. It uses a descriptor from the reserve or waits for
// a free descriptor, because a temporary shortage must not stop an open store.
type retryFS struct {
	vfs.FS
	fs *FS
}

// Unwrap implements vfs.FS.
func (p retryFS) Unwrap() vfs.FS { return p.FS }

// retryDescriptors calls do until do does not fail for lack of file descriptors or until the store is closed. A failed
// call of do must not prevent the next call from succeeding.
func retryDescriptors[T any](g *FS, do func() (T, error)) (T, error) {
	out, err := do()
	if !descriptorsOut(err) || !g.open.Load() {
		return out, err
	}
	tick := time.NewTicker(descriptorRetry)
	defer tick.Stop()
	for ; descriptorsOut(err); out, err = do() {
		if g.o.Reserve.release() {
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
func (p retryFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return retryDescriptors(p.fs, func() (vfs.File, error) { return p.FS.Create(name, c) })
}

// Open implements vfs.FS.
func (p retryFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return retryDescriptors(p.fs, func() (vfs.File, error) { return p.FS.Open(name, o...) })
}

// OpenReadWrite implements vfs.FS.
func (p retryFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return retryDescriptors(p.fs, func() (vfs.File, error) { return p.FS.OpenReadWrite(name, c, o...) })
}

// OpenDir implements vfs.FS.
func (p retryFS) OpenDir(name string) (vfs.File, error) {
	return retryDescriptors(p.fs, func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// List implements vfs.FS.
func (p retryFS) List(dir string) ([]string, error) {
	return retryDescriptors(p.fs, func() ([]string, error) { return p.FS.List(dir) })
}

// RemoveAll implements vfs.FS.
func (p retryFS) RemoveAll(dir string) error {
	_, err := retryDescriptors(p.fs, func() (struct{}, error) { return struct{}{}, p.FS.RemoveAll(dir) })
	return err
}

// ReuseForWrite implements vfs.FS. It renames the file and then opens it. It can retry only the second operation.
func (p retryFS) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Rename(before, name); err != nil {
		return nil, err
	}
	return p.OpenReadWrite(name, c)
}
