// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestFlippedBits checks that a flipped bit in any file of a store is reported when the store opens or its rows are
// read. The report must be one line that names the directory. If the bit is not reported, it must have no effect. All
// rows and the identity must be intact, and no table may be deleted. The exception is the end of the newest log, which
// its last sync wrote. A flipped bit in this part looks like an interrupted write, and the last batch may be missing.
func TestFlippedBits(t *testing.T) {
	whole := vfs.NewCrashableMem()
	s, err := Open(whole, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(30) {
		crashBatch(t, s, n+1, bytes.Repeat([]byte{byte(n)}, 3000))
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if n == 9 || n == 19 { // too few tables for a compaction, which would leave obsolete tables
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := s.Identity()
	crashed := whole.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := &flips{t: t, files: filesOf(t, crashed), id: id}
	newest, _ := newestLog(t, crashed)
	for name, text := range f.files {
		step := 1
		switch size := len(text); {
		case strings.HasSuffix(name, ".sst"):
			step = max(1, size/100)
		case size >= 4<<10 || strings.HasPrefix(name, "OPTIONS-"):
			step = max(1, size/150)
		}
		for at := 0; at < len(text); at += step {
			f.least = 30
			if "db/"+name == newest {
				f.least = 29
			}
			f.flip(name, at)
		}
	}
}

// filesOf returns the contents of the store's files by name.
func filesOf(t *testing.T, fs vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if info, err := fs.Stat("db/" + name); err == nil && !info.IsDir() {
			files[name] = readBytes(t, fs, "db/"+name)
		}
	}
	return files
}

type flips struct {
	t     *testing.T
	files map[string][]byte
	id    Identity
	least uint64 // number of batches that must exist
}

// flip opens and reads the store with one flipped bit.
func (f *flips) flip(name string, at int) {
	f.t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("db", 0o755); err != nil {
		f.t.Fatal(err)
	}
	for n, text := range f.files {
		if n == name {
			text = bytes.Clone(text)
			text[at] ^= 1 << (at % 8)
		}
		writeBytes(f.t, fs, "db/"+n, text)
	}
	s, err := Open(fs, "db", Options{})
	if err == nil {
		if !reflect.DeepEqual(s.Identity(), f.id) {
			f.t.Errorf("%s, byte %d: identity %v, was %v", name, at, s.Identity(), f.id)
		}
		err = f.read(s, name, at)
		_ = s.Close()
	}
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), name) {
		f.t.Errorf("%s, byte %d: not named in %v", name, at, err)
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "goroutine") {
		f.t.Errorf("%s, byte %d: %v", name, at, err)
	}
	for n := range f.files {
		if _, err := fs.Stat("db/" + n); err != nil && strings.HasSuffix(n, ".sst") {
			f.t.Errorf("%s, byte %d: refused, and %s is gone", name, at, n)
		}
	}
}

// read checks the contents of the store. read returns an error if the store has rejected a read.
func (f *flips) read(s *Store, name string, at int) error {
	n, err := s.Get(keys.MetaID, []byte("n"))
	if err != nil {
		return err
	}
	last := uint64(0)
	if len(n) == 8 {
		last = binary.BigEndian.Uint64(n)
	}
	var v shared
	var rows silent
	for to, r := range map[command.Visitor]*command.Read{
		&v:    {Table: testTable, Key: []byte("shared"), Token: token.Hash([]byte("shared"))},
		&rows: {Table: testTable},
	} {
		if err := s.Read(context.Background(), r, to); err != nil {
			return err
		}
	}
	if last < f.least || last > 30 || v.last != last || uint64(v.all) != last || uint64(rows.rows) != last+1 {
		f.t.Errorf("%s, byte %d: %d batches, at least %d wanted; the shared row has %d (%d), %d rows", name, at, last,
			f.least, v.last, v.all, rows.rows)
	}
	return nil
}
