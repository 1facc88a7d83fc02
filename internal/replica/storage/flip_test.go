// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFlippedFiles proves that a flipped bit in any file but tables and logs, whose bits other tests flip, is either
// refused in one line that names the directory, or changes nothing: no data is missing, and no table is deleted.
func TestFlippedFiles(t *testing.T) {
	whole := vfs.NewMem()
	s, err := Open(whole, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(20) {
		crashBatch(t, s, n+1, bytes.Repeat([]byte{byte(n)}, 100))
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := whole.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := whole.Stat("db/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() || info.Size() == 0 || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") {
			continue
		}
		step := max(1, int(info.Size())/60)
		for at := 0; at < int(info.Size()); at += step {
			flipped(t, whole, names, name, at)
		}
	}
}

func flipped(t *testing.T, whole vfs.FS, names []string, name string, at int) {
	t.Helper()
	fs := vfs.NewMem()
	for _, n := range names {
		text := []byte(nil)
		if info, err := whole.Stat("db/" + n); err != nil || info.IsDir() {
			continue
		}
		if text = readBytes(t, whole, "db/"+n); n == name {
			text[at] ^= 1 << (at % 8)
		}
		if err := fs.MkdirAll("db", 0o755); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, fs, "db/"+n, text)
	}
	tables := countTables(t, fs)
	s, err := Open(fs, "db", Options{})
	if err != nil {
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "db") {
			t.Errorf("%s, byte %d: %v", name, at, err)
		}
		if now := countTables(t, fs); now != tables {
			t.Errorf("%s, byte %d: refused, and %d of %d tables are left", name, at, now, tables)
		}
		return
	}
	defer s.Close()
	checkPrefix(t, s, 20, 20)
}

func countTables(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			n++
		}
	}
	return n
}
