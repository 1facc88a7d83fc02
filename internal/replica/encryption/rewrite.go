// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"
)

const (
	// rewriteRate is the number of bytes per second that Rewrite writes. rewriteChunk is the size of one write.
	rewriteRate  = 64 << 20
	rewriteChunk = 64 << 10
	// rewriteSuffix is the suffix of a file that is being rewritten.
	rewriteSuffix = ".rewrite"
)

// ErrRewriting rejects a second concurrent Rewrite.
var ErrRewriting = errors.New("the files are already being rewritten")

// isTable reports whether a file is a table of a store. Tables are never modified after they have been written.
func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// Rewrite replaces the tables of the stores that are not encrypted with the active data key by copies that are, and the
// previous manifests of the stores. If encryption is switched off, the copies are not encrypted. These files are never
// modified, so a store that has an old file open continues to read it. Other files are replaced when the stores write
// new ones, at the latest when the node starts. Rewrite stops before a file if the time until, unless it is zero, has
// passed. more then reports that files remain. done counts the rewritten files.
func (k *Keys) Rewrite(ctx context.Context, until time.Time) (done Count, more bool, err error) {
	if !k.rewriting.TryLock() {
		return done, false, ErrRewriting
	}
	defer k.rewriting.Unlock()
	limit := rate.NewLimiter(rewriteRate, rewriteChunk)
	err = k.each(func(name string, info vfs.FileInfo) error {
		if final, err := k.isFinal(name); err != nil || !final {
			return err
		}
		var want KeyID
		if key, err := k.forWrite(); err != nil {
			return err
		} else if key != nil {
			want = key.id
		}
		id, err := k.keyOf(name)
		if err == nil && id != want {
			if more = !until.IsZero() && time.Now().After(until); more {
				return errStop
			}
			if err = k.rewrite(ctx, name, info.Size(), limit); err == nil {
				done.add(info.Size())
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // a compaction has removed the file
		}
		return err
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return done, more, err
}

// errStop ends a loop over files.
var errStop = errors.New("stop")

const manifestPrefix = "MANIFEST-"

func isManifest(base string) bool {
	return strings.HasPrefix(base, manifestPrefix) && !strings.HasSuffix(base, rewriteSuffix)
}

// isFinal reports whether a file is a complete table or an old manifest. Stores append only to the
// newest manifest in a directory.
func (k *Keys) isFinal(name string) (bool, error) {
	base := k.fs.PathBase(name)
	if isTable(base) {
		return !k.isWriting(name), nil
	}
	if !isManifest(base) {
		return false, nil
	}
	names, err := k.fs.List(k.fs.PathDir(name))
	return slices.ContainsFunc(names, func(other string) bool {
		return isManifest(other) && manifestNumber(other) > manifestNumber(base)
	}), err
}

// manifestNumber returns the number of a manifest, or 0 if the name is not a manifest's name.
func manifestNumber(base string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(base, manifestPrefix), 10, 64) // 0 if it is not a number
	return n
}

// rewrite replaces one file.
func (k *Keys) rewrite(ctx context.Context, name string, size int64, limit *rate.Limiter) error {
	dir := k.fs.PathDir(name)
	if u, err := k.fs.GetDiskUsage(dir); err == nil && u.TotalBytes > 0 &&
		u.AvailBytes < uint64(size)+u.TotalBytes/20 {
		return fmt.Errorf("cannot rewrite %s: the disk must keep 5 %% of its space free. Free disk space and retry", name)
	}
	temp := name + rewriteSuffix
	if err := k.copyFile(ctx, name, temp, limit); err != nil {
		return errors.Join(err, ignoreMissing(k.fs.Remove(temp)))
	}
	k.moving.Lock()
	defer k.moving.Unlock()
	if _, err := k.fs.Stat(name); err != nil {
		return errors.Join(err, k.fs.Remove(temp))
	}
	if err := k.fs.Rename(temp, name); err != nil {
		return errors.Join(err, k.fs.Remove(temp))
	}
	return syncDir(k.fs, dir)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// copyFile copies and syncs a file.
func (k *Keys) copyFile(ctx context.Context, from, to string, limit *rate.Limiter) error {
	f := k.FS()
	in, err := f.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer in.Close()
	created, err := f.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	out := vfs.NewSyncingFile(created, vfs.SyncingFileOptions{BytesPerSync: 1 << 20})
	buf := make([]byte, rewriteChunk)
	for {
		n, err := io.ReadFull(in, buf)
		if n > 0 {
			if err := limit.WaitN(ctx, n); err != nil {
				return errors.Join(err, out.Close())
			}
			if _, err := out.Write(buf[:n]); err != nil {
				return errors.Join(err, out.Close())
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.Join(out.Sync(), out.Close())
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
}

// RemoveRewrites removes the files that an interrupted Rewrite has left. The stores must not be open.
func (k *Keys) RemoveRewrites() error {
	for _, dir := range k.o.Dirs {
		names, err := k.fs.List(dir)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			return err
		}
		for _, name := range names {
			if strings.HasSuffix(name, rewriteSuffix) {
				if err := k.fs.Remove(k.fs.PathJoin(dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
