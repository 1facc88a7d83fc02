// SPDX-License-Identifier: Apache-2.0

package diskfs

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// disk reuses files like an operating system. If no descriptor is free, the file has already been renamed.
type disk struct{ vfs.FS }

// ReuseForWrite implements vfs.FS.
func (d disk) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(before, name); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(name, c)
}

// TestDescriptorsRunOut checks that a store waits for file descriptors at every place where it opens a file. The
// process or the machine may have run out of descriptors. The store's log and its tables must not be affected.
func TestDescriptorsRunOut(t *testing.T) {
	for _, out := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
		var scarce atomic.Bool
		var refused atomic.Int64
		s := &small{FS: disk{errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch op.Kind {
			case errorfs.OpCreate, errorfs.OpOpen, errorfs.OpOpenDir, errorfs.OpList:
				if scarce.Load() && refused.Add(1)%3 != 0 { // every third time, another process has freed a descriptor
					return out
				}
			}
			return nil
		}))}}
		s.free.Store(90 << 20)
		db, g, failed := s.open(t, Options{Logger: unbroken{t: t}})
		scarce.Store(true)
		for range 20 {
			if err := db.Set([]byte("k"), []byte("v"), nil); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if refused.Load() < 40 || len(failed) > 0 {
			t.Errorf("%d descriptors were refused, %d times work failed", refused.Load(), len(failed))
		}
		scarce.Store(false)
		g.Close()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
