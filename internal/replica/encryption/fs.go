// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS encrypts the files of the file system that it wraps. Sizes and offsets do not include the headers of files.
type FS struct {
	vfs.FS
	keys *Keys
}

// FS returns a file system that encrypts the files of the file system with which Open was called.
func (k *Keys) FS() *FS { return &FS{k.fs, k} }

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// Create implements vfs.FS.
func (f *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	key, err := f.keyFor(name)
	if err != nil {
		return nil, err
	}
	created := func() (vfs.File, error) {
		raw, err := f.FS.Create(name, c)
		if err != nil || key == nil {
			return raw, err
		}
		return f.begin(raw, key, c)
	}
	if !isTable(name) {
		return created()
	}
	f.keys.setWriting(name, true)
	file, err := created()
	if err != nil {
		f.keys.setWriting(name, false)
		return nil, err
	}
	return newTable{file, f.keys, name}, nil
}

// newTable is a table that is being written. Rewrite ignores it until it is closed.
type newTable struct {
	vfs.File
	keys *Keys
	name string
}

// Close implements vfs.File.
func (f newTable) Close() error {
	err := f.File.Close()
	f.keys.setWriting(f.name, false)
	return err
}

func (k *Keys) setWriting(name string, writing bool) {
	k.moving.Lock()
	defer k.moving.Unlock()
	if writing {
		k.writing[name] = true
	} else {
		delete(k.writing, name)
	}
}

func (k *Keys) isWriting(name string) bool {
	k.moving.Lock()
	defer k.moving.Unlock()
	return k.writing[name]
}

// keyFor returns the key for a new file, or nil if the file is not encrypted.
func (f *FS) keyFor(name string) (*dataKey, error) {
	if plainName(filepath.Base(name)) {
		return nil, nil
	}
	return f.keys.forWrite()
}

// begin writes the header of a file that was opened for writing.
func (f *FS) begin(raw vfs.File, key *dataKey, c vfs.DiskWriteCategory) (vfs.File, error) {
	header := key.newHeader()
	out := &file{File: raw, keys: f.keys, key: key, nonce: bytes.Clone(header[nonceAt:macAt]),
		inPlace: c != "" && c != vfs.WriteCategoryUnspecified}
	if _, err := raw.Write(header); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return out, nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	raw, err := f.FS.Open(name, o...)
	if err != nil || plainName(filepath.Base(name)) {
		return raw, err
	}
	out, err := f.keys.wrap(name, raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return out, nil
}

// OpenReadWrite implements vfs.FS. The file gets a new nonce and is written from the start. Its previous contents can
// no longer be read.
func (f *FS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	key, err := f.keyFor(name)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return f.FS.OpenReadWrite(name, c, o...)
	}
	switch id, err := f.keys.keyOf(name); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	case id == 0: // contents without encryption must not remain behind the new contents
		return f.Create(name, c)
	}
	raw, err := f.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return f.begin(raw, key, c)
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Rename(before, name); err != nil {
		return nil, err
	}
	return f.OpenReadWrite(name, c)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || plainName(filepath.Base(name)) {
		return info, err
	}
	opened, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	info, err = opened.Stat()
	return info, errors.Join(err, opened.Close())
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.keys.moving.Lock()
	defer f.keys.moving.Unlock()
	return f.FS.Remove(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(before, name string) error {
	f.keys.moving.Lock()
	defer f.keys.moving.Unlock()
	return f.FS.Rename(before, name)
}

// damage is an error about a damaged header. Stores treat it as a damaged block.
type damage string

// Error implements error.
func (d damage) Error() string { return string(d) }

// Is reports whether target is Pebble's error for damaged data.
func (d damage) Is(target error) bool { return target == pebble.ErrCorruption }

// wrap returns a file that decrypts raw, or raw if it is not encrypted. A header that a crash has truncated belongs to
// an empty file. A header that a crash has not written consists of zeros and is not encrypted.
func (k *Keys) wrap(name string, raw vfs.File) (vfs.File, error) {
	header := make([]byte, headerSize)
	n, err := raw.ReadAt(header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		if info, statErr := raw.Stat(); statErr == nil && info.IsDir() {
			return raw, nil
		}
		return nil, err
	}
	if n < len(headerMagic) || string(header[:len(headerMagic)]) != headerMagic {
		return raw, nil
	}
	if n < headerSize {
		return &file{File: raw, keys: k}, nil
	}
	id := headerKey(header)
	key := k.lookup(id)
	switch {
	case header[len(headerMagic)] > headerVersion:
		return nil, fmt.Errorf("open %s: a newer version of Ilion encrypted it", name)
	case key == nil:
		return nil, damage(fmt.Sprintf("open %s: it is encrypted with the data key %s, which is not in %s: it belongs to "+
			"another directory, or it is damaged", name, id, RegistryFile))
	case !bytes.Equal(header[macAt:macEnd], key.mac(header)):
		return nil, damage(fmt.Sprintf("open %s: the header of the encrypted file is damaged", name))
	}
	return &file{File: raw, keys: k, key: key, nonce: header[nonceAt:macAt]}, nil
}
