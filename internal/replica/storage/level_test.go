// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
)

// TestLevel checks that a directory keeps the feature level to which it was raised, and the fields that a later build
// has added to its identity. The previous build must reject the directory as newer and leave it unchanged. Opening the
// directory with a later build must raise neither the level nor Pebble's format.
func TestLevel(t *testing.T) {
	dir := t.TempDir()
	open := func(levels feature.Range) (*Store, error) {
		return Open(vfs.Default, dir, Options{Levels: levels})
	}
	s, err := open(feature.Known)
	if err != nil {
		t.Fatal(err)
	}
	if v := s.db.FormatMajorVersion(); s.Level() != feature.Newest || v != pebbleFormat(feature.Newest) {
		t.Errorf("level %d, Pebble's format %d", s.Level(), v)
	}
	if err := s.Raise(feature.Newest + 1); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, identityFile)
	text, _ := os.ReadFile(name)
	lines, _, _ := cutSum(string(text))
	lines += "later line\n"
	if err := os.WriteFile(name, []byte(lines+sumLine(lines)), 0o644); err != nil {
		t.Fatal(err)
	}
	later := feature.Range{Oldest: 1, Newest: feature.Newest + 1}
	if s, err = open(later); err != nil {
		t.Fatal(err)
	}
	if s.Level() != feature.Newest {
		t.Errorf("a start has raised the level to %d", s.Level())
	}
	if err := errors.Join(s.Raise(later.Newest), s.Raise(feature.Newest), s.Close()); err != nil {
		t.Fatal(err)
	}
	raised, _ := os.ReadFile(name)
	if !strings.Contains(string(raised), fmt.Sprintf("\nlevel %d\n", later.Newest)) ||
		!strings.Contains(string(raised), "\nlater line\n") {
		t.Errorf("%s", raised)
	}
	_, err = open(feature.Known)
	if !errors.Is(err, feature.ErrNewer) ||
		!strings.Contains(err.Error(), fmt.Sprintf(
			"this directory was written by a newer version of Ilion (feature level %d); this version supports %s",
			later.Newest, feature.Known)) {
		t.Errorf("%v", err)
	}
	if _, err = open(feature.Range{Oldest: later.Newest + 1, Newest: later.Newest + 2}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("its feature level is %d, but this version supports %d to %d",
			later.Newest, later.Newest+1, later.Newest+2)) {
		t.Errorf("%v", err)
	}
	if s, err = open(later); err != nil || s.Level() != later.Newest {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRegionOfIdentity checks that the number of the node's region survives a restart and a change of the level, and
// that 0 is not written, because older builds keep the line but do not write it.
func TestRegionOfIdentity(t *testing.T) {
	id := Identity{Cluster: [16]byte{1}, Node: [16]byte{2}}.complete(feature.Newest)
	if text := id.text(); strings.Contains(text, "region") {
		t.Errorf("region 0 is written: %s", text)
	}
	id.Region = 7
	again, err := parseIdentity(id.text())
	if err != nil || again.Region != 7 || len(again.rest) > 0 || again.text() != id.text() {
		t.Errorf("%+v, %v", again, err)
	}
	fs := vfs.NewMem()
	s, err := Open(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SetRegion(3), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(fs, "db", Options{}); err != nil || s.Region() != 3 {
		t.Fatalf("%v, %d", err, s.Region())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
