// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Count is a number of files and their size.
type Count struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (c *Count) add(bytes int64) { c.Files, c.Bytes = c.Files+1, c.Bytes+bytes }

// Usage counts files by their encryption.
type Usage struct {
	// Encrypted are files with the active data key, Outdated files with older data keys, and Plain files without
	// encryption. Files that are never encrypted are not counted.
	Encrypted Count `json:"encrypted"`
	Outdated  Count `json:"outdated"`
	Plain     Count `json:"plain"`
}

// plainName reports whether a file is never encrypted. Such files contain no data of users. They must be readable
// without keys, or have no contents.
func plainName(name string) bool {
	switch name {
	case "LOCK", "join-secret", "recovered.txt":
		return true
	}
	return IsRegistry(name) || strings.HasPrefix(name, "ilion.id") || strings.HasPrefix(name, "join-secret.") ||
		strings.HasPrefix(name, "marker.")
}

// scan counts the files in the directories.
func (k *Keys) scan() (Usage, error) {
	var u Usage
	var active KeyID
	if key := k.active.Load(); key != nil {
		active = key.id
	}
	err := k.each(func(name string, info vfs.FileInfo) error {
		id, err := k.keyOf(name)
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed in the meantime
		}
		if err != nil {
			return err
		}
		switch {
		case id == 0:
			u.Plain.add(info.Size())
		case id == active || active == 0:
			u.Encrypted.add(info.Size())
		default:
			u.Outdated.add(info.Size())
		}
		return nil
	})
	return u, err
}

// anyEncrypted reports whether a log or a manifest is encrypted. It does not open the tables, because a store may have
// many of them.
func (k *Keys) anyEncrypted() (found bool, err error) {
	err = k.each(func(name string, _ vfs.FileInfo) error {
		if found || isTable(name) {
			return nil
		}
		id, err := k.keyOf(name)
		found = id != 0
		return err
	})
	return found, err
}

// each calls f for all files in the directories that may be encrypted and are not empty.
func (k *Keys) each(f func(name string, info vfs.FileInfo) error) error {
	for _, dir := range k.o.Dirs {
		names, err := k.fs.List(dir)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, base := range names {
			if plainName(base) {
				continue
			}
			name := k.fs.PathJoin(dir, base)
			info, err := k.fs.Stat(name)
			if errors.Is(err, os.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
				continue
			}
			if err != nil {
				return err
			}
			if err := f(name, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyOf returns the ID of the data key of a file, or 0 if the file is not encrypted.
func (k *Keys) keyOf(name string) (KeyID, error) {
	f, err := k.fs.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head [24]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case n < len(head):
		return 0, nil
	case string(head[:len(headerMagic)]) == headerMagic:
		return KeyID(binary.LittleEndian.Uint64(head[16:])), nil
	case string(head[:len(recordMagic)]) == recordMagic:
		return KeyID(binary.LittleEndian.Uint64(head[len(recordMagic):])), nil
	}
	return 0, nil
}

// Status describes the encryption of a data directory.
type Status struct {
	// Enabled reports whether new files are encrypted.
	Enabled bool `json:"enabled"`
	// StoreKey is the fingerprint of the store key, and Source is its file or command.
	StoreKey string `json:"store_key"`
	Source   string `json:"source"`
	// Replaced are the previous store keys.
	Replaced []ReplacedKey `json:"replaced,omitempty"`
	// DataKey is the data key of new files. DataKeys is the number of data keys.
	DataKey  string    `json:"data_key"`
	Bits     int       `json:"data_key_bits"`
	Created  time.Time `json:"data_key_created"`
	DataKeys int       `json:"data_keys"`
	Usage
	// Share is the share of the bytes that are encrypted, from 0 to 1.
	Share float64 `json:"share"`
}

// Summary returns the status without counting files.
func (k *Keys) Summary() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := k.active.Load()
	return Status{Enabled: !k.o.Decrypt, StoreKey: k.store.fingerprint, Source: k.o.Key.String(),
		Replaced: k.registry.Replaced, DataKey: key.id.String(), Bits: key.bits, Created: key.created,
		DataKeys: len(*k.all.Load())}
}

// Status counts the files and returns the status.
func (k *Keys) Status() (Status, error) { return k.StatusWithin(0) }

// StatusWithin returns the status with numbers of files that are not older than age.
func (k *Keys) StatusWithin(age time.Duration) (Status, error) {
	s := k.Summary()
	k.counting.Lock()
	defer k.counting.Unlock()
	if now := time.Now(); k.countedAt.IsZero() || now.Sub(k.countedAt) > age {
		u, err := k.scan()
		if err != nil {
			return s, err
		}
		k.counted, k.countedAt = u, now
	}
	s.Usage = k.counted
	if total := s.Encrypted.Bytes + s.Outdated.Bytes + s.Plain.Bytes; total > 0 {
		s.Share = float64(total-s.Plain.Bytes) / float64(total)
	}
	return s, nil
}

// Rotations returns the number of data keys that were replaced since Open.
func (k *Keys) Rotations() uint64 { return k.rotated.Load() }
