// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// keyFile writes a store key to a file and returns its source.
func keyFile(t testing.TB, fill byte) KeySource {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, fmt.Appendf(nil, "%x\n", bytes.Repeat([]byte{fill}, keyBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	return KeySource{File: name}
}

// options returns options for the directory db.
func options(key KeySource) Options {
	return Options{Key: key, Rotation: time.Hour, Dirs: []string{"db", "db/raft"}}
}

// open opens the keys of the directory db.
func open(t testing.TB, fs vfs.FS, o Options) *Keys {
	t.Helper()
	if err := fs.MkdirAll("db/raft", 0o700); err != nil {
		t.Fatal(err)
	}
	k, err := Open(context.Background(), fs, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// write writes a file in pieces and syncs it.
func write(t testing.TB, fs vfs.FS, name string, pieces ...[]byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces {
		if n, err := f.Write(p); n != len(p) || err != nil {
			t.Fatalf("write %s: %d, %v", name, n, err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// contents reads a file to its end.
func contents(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
