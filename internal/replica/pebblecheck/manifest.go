// SPDX-License-Identifier: Apache-2.0

// Package pebblecheck detects damage to the manifest and the write-ahead logs of a Pebble store before Pebble opens it.
//
// The manifest is the list of the store's tables. Pebble reads the manifest up to the first invalid record and ignores
// the rest, because a crash may have interrupted a write. A flipped bit has the same effect. The store then opens with
// fewer tables and deletes the files of the missing tables. This package distinguishes a damaged manifest from an
// interrupted write, and returns an error that contains the file name. It does the same for write-ahead logs.
package pebblecheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged means that a store file is damaged.
var ErrDamaged = errors.New("a store file is damaged")

// damaged returns an error about damage to a file at a byte offset.
func damaged(name string, at uint64) error {
	return fmt.Errorf("%w: %s, at byte %d: %s", ErrDamaged, name, at, advice)
}

const advice = "restore a copy of the directory, or replace the node"

// Check returns an error that wraps ErrDamaged and contains the file name if the manifest of the store in dir is
// damaged or missing. It returns nil if the manifest is intact, if a crash has truncated the manifest, or if the store
// does not exist.
func Check(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	store, err := pebble.Peek(dir, fs)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if !store.Exists {
		return checkAbsent(fs, dir)
	}
	text, err := read(fs, store.ManifestFilename)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if at, ok := checkList(text); !ok {
		return damaged(store.ManifestFilename, uint64(at))
	}
	return nil
}

// CheckOptions returns an error that wraps ErrDamaged and contains the file name if the stored options of the store in
// dir are incompatible with o. Pebble detects the same error but does not report the file name. The options file has no
// checksum, so CheckOptions cannot detect damage that leaves the options compatible.
func CheckOptions(fs vfs.FS, dir string, o *pebble.Options) error {
	store, err := pebble.Peek(dir, fs)
	if err != nil || store.OptionsFilename == "" {
		return err
	}
	text, err := read(fs, store.OptionsFilename)
	if err != nil {
		return err
	}
	o = o.Clone()
	o.EnsureDefaults()
	if err := o.CheckCompatibility(dir, string(text)); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("%w: %s: %s: %s", ErrDamaged, store.OptionsFilename, strings.TrimPrefix(line, "pebble: "),
			advice)
	}
	return nil
}

// NameLogs adds the names of the log files to a Pebble error about a damaged write-ahead log, because Pebble does not
// report the file name. damaged is false for all other errors.
func NameLogs(fs vfs.FS, dir string, err error) (named error, damaged bool) {
	if !errors.Is(err, record.ErrInvalidChunk) && !errors.Is(err, record.ErrZeroedChunk) &&
		!errors.Is(err, record.ErrUnexpectedEOF) {
		return err, false
	}
	names, _ := fs.List(dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, logFileSuffix) })
	slices.Sort(names)
	return fmt.Errorf("the log (%s): %w", strings.Join(names, ", "), err), true
}

// firstManifest is the manifest of a new store. Pebble creates the marker of the manifest before the first log.
const firstManifest = "MANIFEST-000001"

// checkAbsent returns an error if a directory without a marker contains tables, logs, or manifests. It permits an empty
// first manifest, which a crash during creation can leave.
func checkAbsent(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(names, func(name string) bool {
		return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, logFileSuffix) ||
			strings.HasPrefix(name, "MANIFEST-") && name != firstManifest
	})
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%w: %s exists, but the file marker.manifest that refers to it is missing: %s", ErrDamaged,
		fs.PathJoin(dir, names[i]), advice)
}

func read(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// A manifest uses the record format of LevelDB's logs, which consists of blocks of 32 KiB with chunks of records. A
// chunk starts with its checksum, length, and type, and does not cross a block boundary. The checksum covers the type
// and the following bytes.
const (
	blockSize  = 32 << 10
	headerSize = 7
	typeMax    = 4
	// sector is the unit that a disk writes atomically. The bytes of an unwritten sector are zeros after a crash.
	sector = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// valid returns the length of the chunk at the start of text, including its header, or 0 if text does not start with a
// valid chunk.
func valid(text []byte) int {
	if len(text) < headerSize {
		return 0
	}
	n := headerSize + int(binary.LittleEndian.Uint16(text[4:]))
	if n > len(text) || text[6] == 0 || text[6] > typeMax || !checksumMatches(text[:n]) {
		return 0
	}
	return n
}

func checksumMatches(chunk []byte) bool {
	c := crc32.Checksum(chunk[6:], castagnoli)
	return binary.LittleEndian.Uint32(chunk) == (c>>15|c<<17)+0xa282ead8
}

// checkList reports whether a manifest is intact or has been truncated by a crash. If ok is false, at is the offset of
// the damage.
func checkList(text []byte) (at int, ok bool) {
	for at < len(text) {
		block := text[at:min(len(text), at/blockSize*blockSize+blockSize)]
		if len(block) < headerSize {
			if !zero(block) {
				return at, len(text) == at+len(block) // the header has been truncated
			}
			at += len(block)
			continue
		}
		if n := valid(block); n > 0 {
			at += n
			continue
		}
		return at, torn(text[at:], block)
	}
	return at, true
}

// torn reports whether a crash may have truncated the manifest in the invalid chunk at the start of rest. block is the
// remainder of the chunk's block.
func torn(rest, block []byte) bool {
	for i := 1; i < len(block); i++ { // a later valid record exists
		if valid(block[i:]) > 0 {
			return false
		}
	}
	for i := len(block); i < len(rest); i += blockSize {
		if valid(rest[i:min(len(rest), i+blockSize)]) > 0 {
			return false
		}
	}
	// A crash can truncate the last chunk or leave some of its sectors unwritten.
	if len(rest) > len(block) {
		return zero(rest[len(block):])
	}
	n := headerSize + int(binary.LittleEndian.Uint16(block[4:]))
	switch {
	case hasZeroSectors(block):
		return true
	case n > len(block):
		return !checksumMatches(block) // only the length is damaged
	}
	return false
}

// hasZeroSectors reports whether text contains a whole sector of zeros or ends with zeros.
func hasZeroSectors(text []byte) bool {
	if len(text) > 0 && zero(text[len(text)/2:]) {
		return true
	}
	for i := 0; i+sector <= len(text); i++ {
		if text[i] == 0 && zero(text[i:i+sector]) {
			return true
		}
	}
	return false
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
