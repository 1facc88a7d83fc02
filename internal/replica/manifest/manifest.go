// SPDX-License-Identifier: Apache-2.0

// Package manifest finds out, before Pebble opens a store, whether the list of its tables and its logs are whole.
//
// Pebble reads the list (MANIFEST) up to the first record that is not right and takes what comes before it for all
// there is, as after a crash in the middle of a write. A flipped bit looks the same to it: the store opens with fewer
// tables, or none, says nothing, and deletes the files it does not know. Here the two are told apart, so that a
// damaged list is refused by name and nothing is deleted. The same goes for the end of a write-ahead log.
package manifest

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

// ErrDamaged says that what a store begins with is not what was written.
var ErrDamaged = errors.New("a file of the store is not what was written")

// damaged is the error about a file, at a byte of it.
func damaged(name string, at uint64) error {
	return fmt.Errorf("%w: %s, at byte %d: %s", ErrDamaged, name, at, advice)
}

const advice = "put a copy of the directory back, or replace the node"

// Check returns an error that wraps ErrDamaged and names the file if the list of tables of the store in dir is damaged
// or missing, and nil if it is whole, was cut off by a crash, or there is no store.
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
	if at, ok := whole(text); !ok {
		return damaged(store.ManifestFilename, uint64(at))
	}
	return nil
}

// CheckOptions returns an error that wraps ErrDamaged and names the file if the options that the store in dir was
// written with do not fit those that it is to be opened with. Pebble finds that, too, but names no file. The text has
// no checksum: what is damaged and fits all the same is not read.
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

// NameLogs adds to an error of Pebble's about a damaged write-ahead log the names of its files, since Pebble says
// neither which it is nor where; damaged is false for any other error.
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

// firstManifest is the list that Pebble begins a store with. It gets its marker, and only then the store its first log.
const firstManifest = "MANIFEST-000001"

// checkAbsent finds tables, logs or lists that no marker belongs to. A first list alone is what a crash leaves of the
// making of a store: nothing was written to that yet.
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
	return fmt.Errorf("%w: %s is there, but not the marker.manifest that names the list: %s", ErrDamaged,
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

// The form of a list is that of LevelDB's logs: blocks of 32 KiB with chunks of records, each after its checksum, its
// length and its type. A chunk does not cross a block, and the checksum is of the type and what follows.
const (
	blockSize  = 32 << 10
	headerSize = 7
	typeMax    = 4
	// sector is what a disk writes at once, at least; what a crash kept from being written reads as zeros.
	sector = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// valid returns the length of the chunk that begins text, header included; 0 if none does.
func valid(text []byte) int {
	if len(text) < headerSize {
		return 0
	}
	n := headerSize + int(binary.LittleEndian.Uint16(text[4:]))
	if n > len(text) || text[6] == 0 || text[6] > typeMax || !sums(text[:n]) {
		return 0
	}
	return n
}

func sums(chunk []byte) bool {
	c := crc32.Checksum(chunk[6:], castagnoli)
	return binary.LittleEndian.Uint32(chunk) == (c>>15|c<<17)+0xa282ead8
}

// whole reports whether a list is as it was written, or ends as a crash lets it end; else at is where it is damaged.
func whole(text []byte) (at int, ok bool) {
	for at < len(text) {
		block := text[at:min(len(text), at/blockSize*blockSize+blockSize)]
		if len(block) < headerSize {
			if !zero(block) {
				return at, len(text) == at+len(block) // a header that was cut off
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

// torn reports whether a list may have been cut off by a crash in the chunk where rest begins, which is not valid.
// block is what is left of its block.
func torn(rest, block []byte) bool {
	for i := 1; i < len(block); i++ { // the next record would not have been written before this one was
		if valid(block[i:]) > 0 {
			return false
		}
	}
	for i := len(block); i < len(rest); i += blockSize {
		if valid(rest[i:min(len(rest), i+blockSize)]) > 0 {
			return false
		}
	}
	// It is the last. A crash leaves it short, or leaves sectors out.
	if len(rest) > len(block) {
		return zero(rest[len(block):])
	}
	n := headerSize + int(binary.LittleEndian.Uint16(block[4:]))
	switch {
	case holes(block):
		return true
	case n > len(block):
		return !sums(block) // whole, but for its length
	}
	return false
}

// holes reports whether whole sectors, or all to the end, read as zeros.
func holes(text []byte) bool {
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
