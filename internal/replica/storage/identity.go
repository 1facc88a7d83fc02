// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// FormatVersion is the version of the formats of keys, rows, metas, and the log. Open rejects stores of other versions.
// Format changes after version 2 use feature levels instead (RFC 0006).
const FormatVersion = 2

// Identity identifies the data in a directory.
type Identity struct {
	Format        int
	Cluster, Node [16]byte
	// CreationID is a random number that is generated when the directory is created. It is 0 in directories that older
	// builds created. It distinguishes two directories with the same node ID, for example after the node has lost its
	// disk.
	CreationID uint64
	// Created is in UTC, with a precision of one second.
	Created time.Time
	// Level is the feature level of the directory. In Options, 0 means the newest level that the build supports.
	Level feature.Level
	// Region is the number of the region of the node, or 0 for the region in which the cluster was created.
	Region uint32

	rest []string // lines from a newer build
}

// The identity is a small text file next to Pebble's files. The file gets its final name only when the store is
// complete, so an interrupted creation cannot be mistaken for a store that has lost files.
const (
	identityFile = "ilion.id"
	identityTemp = "ilion.id.new"
	identityHead = "ilion store"
)

func (id Identity) text() string {
	text := fmt.Sprintf("%s\nformat %d\nlevel %d\ncluster %x\nnode %x\nbirth %016x\ncreated %s\n",
		identityHead, id.Format, id.Level, id.Cluster, id.Node, id.CreationID, id.Created.UTC().Format(time.RFC3339))
	if id.Region != 0 {
		text += fmt.Sprintf("region %d\n", id.Region)
	}
	for _, line := range id.rest {
		text += line + "\n"
	}
	return text + sumLine(text)
}

// sumLine returns the last line of an identity, which is the checksum of all previous lines. The checksum detects
// flipped bits in IDs.
func sumLine(text string) string {
	return fmt.Sprintf("sum %08x\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}

// cutSum removes the checksum line if it exists. found reports whether the line exists, and whole reports whether the
// checksum is correct.
func cutSum(text string) (lines string, found, whole bool) {
	at := strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1
	if !strings.HasPrefix(text[at:], "sum ") {
		return text, false, false
	}
	return text[:at], true, text[at:] == sumLine(text[:at])
}

// formatOf returns the format version of an identity, or 0 if the identity contains no version.
func formatOf(text string) (format int) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "format "); ok {
			format, _ = strconv.Atoi(strings.TrimSuffix(value, "\n"))
		}
	}
	return format
}

func parseIdentity(text string) (Identity, error) {
	bad := errors.New("the identity file is damaged: " + identityFile)
	text, found, whole := cutSum(text)
	if format := formatOf(text); format > FormatVersion { // a newer format may have another checksum
		return Identity{Format: format}, newerDirectory("format", format, FormatVersion, FormatVersion)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if found && !whole || len(lines) < 2 || lines[0] != identityHead {
		return Identity{}, bad
	}
	var id Identity
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		var err error
		switch name {
		case "format":
			if id.Format, err = strconv.Atoi(value); err != nil || id.Format == FormatVersion {
				break
			}
			return id, fmt.Errorf("an older version of Ilion wrote it (format %d), "+
				"which cannot be upgraded to this version (format %d)", id.Format, FormatVersion)
		case "level":
			var level uint64
			level, err = strconv.ParseUint(value, 10, 32)
			id.Level = feature.Level(level)
		case "region":
			var number uint64
			number, err = strconv.ParseUint(value, 10, 32)
			id.Region = uint32(number)
		case "cluster":
			err = parseID(&id.Cluster, value)
		case "node":
			err = parseID(&id.Node, value)
		case "birth":
			id.CreationID, err = strconv.ParseUint(value, 16, 64)
		case "created":
			id.Created, err = time.Parse(time.RFC3339, value)
		default:
			id.rest = append(id.rest, line)
		}
		if err != nil {
			return Identity{}, bad
		}
	}
	if !found && id.Format > 0 && id.Level > 0 {
		return Identity{}, fmt.Errorf("its identity file %s has no checksum: it is damaged, or a version before the "+
			"first release "+
			"wrote it, which is not supported", identityFile)
	}
	if !whole || id.Format == 0 || id.Level == 0 {
		return Identity{}, bad
	}
	return id, nil
}

// newerDirectory returns the error for a directory that only a newer build can read.
func newerDirectory(unit string, has, oldest, newest int) error {
	return &feature.Newer{What: "this directory", Unit: unit, Has: uint64(has), Oldest: uint64(oldest),
		Newest: uint64(newest)}
}

func parseID(id *[16]byte, text string) error {
	b, err := hex.DecodeString(text)
	if err != nil || copy(id[:], b) != len(id) || len(b) != len(id) {
		return errors.New("bad id")
	}
	return nil
}

// complete sets the unset fields for a new store.
func (id Identity) complete(newest feature.Level) Identity {
	id.Format = FormatVersion
	if id.Level == 0 {
		id.Level = newest
	}
	for _, p := range []*[16]byte{&id.Cluster, &id.Node} {
		if *p == [16]byte{} {
			_, _ = rand.Read(p[:]) // Read never fails
		}
	}
	for id.CreationID == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // Read never fails
		id.CreationID = binary.BigEndian.Uint64(b[:])
	}
	if id.Created.IsZero() {
		id.Created = time.Now().UTC().Truncate(time.Second)
	}
	return id
}

// readIdentity reads the identity of a directory. exists is false if the directory contains no store.
func readIdentity(fs vfs.FS, dir string) (id Identity, exists bool, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return Identity{}, false, err
	}
	begun := false
	for _, name := range names {
		switch name {
		case identityFile:
			text, err := readFile(fs, fs.PathJoin(dir, name))
			if err != nil {
				return Identity{}, true, err
			}
			id, err = parseIdentity(text)
			return id, true, err
		case identityTemp:
			begun = true
		}
	}
	for _, name := range names {
		if !begun && name != "LOCK" && name != "lost+found" {
			return Identity{}, false, fmt.Errorf("it is not a data directory: it contains %q", name)
		}
	}
	return Identity{}, false, nil
}

// ReadIdentity returns the identity of a directory without opening the store, or nil if the directory contains no
// store.
func ReadIdentity(fs vfs.FS, dir string) (*Identity, error) {
	if info, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil // Open returns the error if dir is a file
	}
	id, exists, err := readIdentity(fs, dir)
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, err)
	}
	if !exists {
		return nil, nil
	}
	return &id, nil
}

func readFile(fs vfs.FS, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	return string(b), err
}

// writeTemp writes and syncs the identity under its temporary name.
func writeTemp(fs vfs.FS, dir string, id Identity) error {
	f, err := fs.Create(fs.PathJoin(dir, identityTemp), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, id.text())
	if err = errors.Join(err, f.Sync()); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// commitTemp renames the identity to its final name.
func commitTemp(fs vfs.FS, dir string) error {
	if err := fs.Rename(fs.PathJoin(dir, identityTemp), fs.PathJoin(dir, identityFile)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir creates dir and its parents, and syncs the parent of every new directory.
func makeDir(fs vfs.FS, dir string) error {
	var missing []string
	for d := dir; ; d = fs.PathDir(d) {
		info, err := fs.Stat(d)
		if err == nil {
			if !info.IsDir() {
				return fmt.Errorf("%s is not a directory", d)
			}
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if missing = append(missing, d); fs.PathDir(d) == d {
			break
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range missing {
		if parent := fs.PathDir(d); parent != d {
			if err := syncDir(fs, parent); err != nil {
				return err
			}
		}
	}
	return nil
}
