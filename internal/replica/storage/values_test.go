// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// writeLarge writes small rows and a large row twice, and merges all levels.
func writeLarge(t *testing.T, s *Store, size int) {
	t.Helper()
	for range 2 {
		for i := range 20 {
			apply(t, s, insert("k", fmt.Sprintf("%02d", i), 1))
		}
		apply(t, s, mutation("k", "05x", 1, func(b *row.Builder) {
			b.Cell(1, nil, bytes.Repeat([]byte("large "), size/6), 0, 0)
		}))
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestLargeValuesStandApart checks that a row of 4 MiB is in a separate file after merging, and that reading adjacent
// rows does not load the large row. All rows must be intact after a restart, in a checkpoint, and in a snapshot that
// another store has installed.
func TestLargeValuesStandApart(t *testing.T) {
	fs := vfs.NewMem()
	s := openParts(t, fs, Options{})
	createPartition(t, s, 1, keys.Span{Table: testTable})
	writeLarge(t, s, 4<<20)
	m := s.db.Metrics()
	if m.BlobFiles.LiveCount == 0 || m.BlobFiles.ValueSize < 1<<20 {
		t.Fatalf("%d files of large values", m.BlobFiles.LiveCount)
	}
	want := readOne(t, s, "k")
	if len(want) != 22 || len(strings.Join(want, "")) < 4<<20 {
		t.Fatalf("%d lines", len(want))
	}
	check := func(what string, s *Store) {
		t.Helper()
		if got := readOne(t, s, "k"); strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("%s: %d lines", what, len(got))
		}
	}
	snap, err := s.CaptureSnapshot(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	other := openParts(t, vfs.NewMem(), Options{})
	if err := other.InstallSnapshot(context.Background(), keys.Span{}, stream(snap), nil); err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	check("installed", other)
	writeLarge(t, other, 4<<20)
	check("merged after that", other)
	if a, b := hashOf(t, s, keys.Span{Table: testTable}), hashOf(t, other, keys.Span{Table: testTable}); a != b {
		t.Error("the hashes differ")
	}
	if err := other.Truncate(keys.Span{Table: testTable}, nil); err != nil {
		t.Fatal(err)
	}
	closeStore(t, other)
	if err := s.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openParts(t, fs, Options{})
	check("opened again", s)
	closeStore(t, s)
	s, err = Open(fs, "copy", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.InstallTable(testTableInfo())
	check("checkpoint", s)
	closeStore(t, s)
}
