// SPDX-License-Identifier: Apache-2.0

package pebblecheck

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// store creates a store in memory with a few tables, and a manifest of more than one block.
func store(t *testing.T) (*vfs.MemFS, string) {
	t.Helper()
	fs := vfs.NewMem()
	o := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation, DisableAutomaticCompactions: true,
		Logger: quiet{}}
	db, err := pebble.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		key := fmt.Appendf(nil, "%0100d", i)
		if err := db.Set(key, key, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := pebble.Peek("data", fs)
	if err != nil || !found.Exists {
		t.Fatal(found, err)
	}
	return fs, found.ManifestFilename
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func write(t *testing.T, fs vfs.FS, name string, text []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBits checks that every flipped bit of a manifest is rejected with an error that names the file.
func TestFlippedBits(t *testing.T) {
	fs, name := store(t)
	text, err := read(fs, name)
	if err != nil || len(text) < 2*blockSize {
		t.Fatal(len(text), err)
	}
	if err := Check(fs, "data"); err != nil {
		t.Fatal(err)
	}
	// It flips all bits of the first and last records and at the block boundaries, and some bits in between.
	for i := range text {
		inBlock := i % blockSize
		if i > 2000 && i < len(text)-2000 && inBlock > 100 && inBlock < blockSize-100 && i%97 != 0 {
			continue
		}
		bit := byte(1) << (i % 8)
		text[i] ^= bit
		if at, ok := checkList(text); ok {
			t.Errorf("byte %d of %d, bit %#x: passed up to %d", i, len(text), bit, at)
		}
		text[i] ^= bit
	}
	text[len(text)/2] ^= 4
	write(t, fs, name, text)
	if err := Check(fs, "data"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(name)) {
		t.Error(err)
	}
}

// TestTornTails checks that a file that is incomplete after a crash is not reported as damaged. The manifest may end in
// the middle of a record, at any byte, or its last sectors may not have been written.
func TestTornTails(t *testing.T) {
	fs, name := store(t)
	text, err := read(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range text {
		if n > 1000 && n < len(text)-1000 && n%blockSize > 50 && n%blockSize < blockSize-50 {
			continue
		}
		if at, ok := checkList(text[:n]); !ok {
			t.Errorf("cut to %d bytes: damaged at %d", n, at)
		}
		unwritten := append(append([]byte{}, text[:n/sector*sector]...), make([]byte, len(text)-n/sector*sector)...)
		if at, ok := checkList(unwritten); !ok {
			t.Errorf("zeros from %d: damaged at %d", n/sector*sector, at)
		}
	}
}

// TestMarkers checks that tables without a manifest are rejected, and that an empty directory is not treated as a
// store.
func TestMarkers(t *testing.T) {
	if err := Check(vfs.NewMem(), "nowhere"); err != nil {
		t.Error(err)
	}
	fs, _ := store(t)
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker.manifest") {
			if err := fs.Remove("data/" + n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Check(fs, "data"); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// steps inspects a store after the creation of each of its files.
type steps struct {
	vfs.FS
	t     *testing.T
	first bool // whether the first manifest existed without a marker
}

func (s *steps) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	if err := Check(s.FS, "data"); err != nil {
		s.t.Errorf("after %s: %v", name, err)
	}
	if filepath.Base(name) == firstManifest {
		s.first = true
	}
	return f, err
}

// TestCutOffInMaking checks that the files of a store are not reported as damaged if a crash interrupted its creation
// after any file. It must be possible to create the store from them.
func TestCutOffInMaking(t *testing.T) {
	fs := &steps{FS: vfs.NewMem(), t: t}
	open := func(fs vfs.FS) {
		db, err := pebble.Open("data", &pebble.Options{FS: fs, Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if open(fs); !fs.first {
		t.Error("a store does not begin with " + firstManifest)
	}
	cut := vfs.NewMem()
	if err := cut.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, cut, "data/"+firstManifest, []byte("begun"))
	open(cut)
	if found, err := pebble.Peek("data", cut); err != nil || !found.Exists || Check(cut, "data") != nil {
		t.Error(found, err)
	}
}

// TestDamagedLogs checks that a flipped bit in a log is detected, except in the bytes of the last three syncs. A log
// that a crash truncated at any byte must not be reported as damaged. The same applies to a log that is followed by the
// remains of an older log.
func TestDamagedLogs(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation,
		Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Flush(); err != nil { // the first log of a store has the format without offsets
		t.Fatal(err)
	}
	name, last := "", 0
	for i := range 40 {
		if i == 37 {
			last = int(db.Metrics().WAL.Size) // size of the current log
		}
		value := bytes.Repeat([]byte{byte(i), 1}, 300+i%9/8*20_000)
		if err := db.Set(fmt.Append(nil, i), value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			name = max(name, n)
		}
	}
	text, err := read(fs, "data/"+name)
	if err != nil || len(text) < 2*blockSize {
		t.Fatal(len(text), err)
	}
	var number uint32
	if _, err := fmt.Sscanf(name, "%d.log", &number); err != nil {
		t.Fatal(err)
	}
	find := func(text []byte) uint64 {
		at, err := damagedAt(bytes.NewReader(text), number)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := find(text); at != nothingInvalid {
		t.Fatalf("a whole log is damaged at %d", at)
	}
	for i := 0; i < last && !t.Failed(); i += 1 + i%97 {
		text[i] ^= 1 << (i % 8)
		if at := find(text); (at == nothingInvalid || at > uint64(i)) && !padding(text, i) {
			t.Errorf("byte %d of %d: found at %d", i, last, at)
		}
		text[i] ^= 1 << (i % 8)
	}
	older := bytes.ReplaceAll(text, []byte{byte(number), 0, 0, 0}, []byte{1, 0, 0, 0})
	for n := 0; n < len(text); n += 1 + n%997 {
		remains := append(bytes.Clone(text[:n]), older[n:]...)
		zeros := append(bytes.Clone(text[:n]), make([]byte, len(text)-n)...)
		for what, cut := range map[string][]byte{"cut": text[:n], "zeros": zeros, "remains": remains} {
			if at := find(cut); at != nothingInvalid && !t.Failed() {
				t.Errorf("%s at %d of %d: damaged at %d", what, n, len(text), at)
			}
		}
	}
	text[last/2] ^= 1
	write(t, fs, "data/"+name, text)
	if err := CheckLogs(fs, "data"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
}

// padding reports whether a byte is padding at the end of a block, which is never read.
func padding(text []byte, at int) bool {
	end := at/blockSize*blockSize + blockSize
	return end <= len(text) && end-at < logHeaderSize
}
