// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// planted occurs in all contents of the model.
const planted = "planted-value-0123456789"

// model compares an FS with a map of contents.
type model struct {
	t     testing.TB
	raw   *vfs.MemFS
	o     Options
	keys  *Keys
	fs    *FS
	files map[string][]byte
}

func newModel(t testing.TB) *model {
	m := &model{t: t, raw: vfs.NewCrashableMem(), o: options(keyFile(t, 1)), files: map[string][]byte{}}
	m.reopen()
	return m
}

func (m *model) reopen() {
	m.keys = open(m.t, m.raw, m.o)
	m.fs = m.keys.FS()
}

func (m *model) name(n byte) string { return fmt.Sprintf("db/%d.sst", n%8) }

// text returns contents with the planted value.
func text(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(5000))
	for i := range b {
		b[i] = planted[i%len(planted)]
	}
	if r.IntN(4) == 0 {
		clear(b) // zeros must not be mistaken for unwritten sectors
	}
	return b
}

// step executes one random operation.
func (m *model) step(op, arg byte, r *rand.Rand) {
	name, other := m.name(arg), m.name(arg>>4)
	switch op % 10 {
	case 0, 1:
		c := categories[r.IntN(2)]
		m.overwrite(func() (vfs.File, error) { return m.fs.Create(name, c) }, name, c == "", r)
	case 2:
		if _, ok := m.files[other]; ok && other != name {
			delete(m.files, other)
			m.overwrite(func() (vfs.File, error) { return m.fs.ReuseForWrite(other, name, "") }, name, true, r)
		}
	case 3:
		if _, ok := m.files[other]; ok {
			m.check(m.fs.Rename(other, name))
			m.files[name] = m.files[other]
			if other != name {
				delete(m.files, other)
			}
		}
	case 4:
		_, exists := m.files[name]
		if _, ok := m.files[other]; ok && !exists {
			m.check(m.fs.Link(other, name))
			m.files[name] = m.files[other]
			// A link shares its contents. Remove the other name, because the model would not notice later changes.
			m.check(m.fs.Remove(other))
			delete(m.files, other)
		}
	case 5:
		if _, ok := m.files[name]; ok {
			m.check(m.fs.Remove(name))
			delete(m.files, name)
		}
	case 6:
		m.reopen()
	case 7:
		_, err := m.keys.Rotate(m.t.Context())
		m.check(err)
	case 8:
		_, _, err := m.keys.Rewrite(m.t.Context(), time.Time{})
		m.check(err)
	case 9:
		m.readAt(name, r)
	}
}

func (m *model) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// categories are the category of files whose writers keep the argument of Write, and a category of Pebble's.
var categories = []vfs.DiskWriteCategory{"", "pebble-compaction"}

// overwrite writes new contents to a file. keeps is set if Write must not change its argument.
func (m *model) overwrite(create func() (vfs.File, error), name string, keeps bool, r *rand.Rand) {
	m.t.Helper()
	f, err := create()
	m.check(err)
	old := m.files[name]
	var all []byte
	for range r.IntN(4) {
		b := text(r)
		kept := bytes.Clone(b)
		_, err := f.Write(b)
		m.check(err)
		if keeps && !bytes.Equal(b, kept) {
			m.t.Fatal("Write changed its argument")
		}
		all = append(all, kept...)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, errRandomWrite) {
		m.t.Fatalf("WriteAt: %v", err)
	}
	m.check(f.Sync())
	info, err := f.Stat()
	m.check(err)
	m.check(f.Close())
	m.files[name] = all
	if reused := info.Size() > int64(len(all)); reused { // the rest is unreadable
		got := contents(m.t, m.fs, name)
		if !bytes.HasPrefix(got, all) {
			m.t.Fatalf("%s does not start with the new contents", name)
		}
		if rest := got[len(all):]; len(rest) > 32 && bytes.Contains(old, rest) {
			m.t.Fatalf("%s: the previous contents are readable", name)
		}
		m.files[name] = got
	}
}

// readAt reads a part of a file.
func (m *model) readAt(name string, r *rand.Rand) {
	m.t.Helper()
	want, ok := m.files[name]
	if !ok {
		_, err := m.fs.Open(name)
		if !errors.Is(err, os.ErrNotExist) {
			m.t.Fatalf("a missing file: %v", err)
		}
		return
	}
	f, err := m.fs.Open(name)
	m.check(err)
	defer f.Close()
	for range 20 {
		at, b := r.IntN(len(want)+2), make([]byte, r.IntN(1500))
		n, err := f.ReadAt(b, int64(at))
		rest := want[min(at, len(want)):]
		if !bytes.Equal(b[:n], rest[:min(len(b), len(rest))]) || n < len(b) && !errors.Is(err, io.EOF) ||
			err != nil && !errors.Is(err, io.EOF) {
			m.t.Fatalf("%s: ReadAt(%d bytes, %d) of %d: %d, %v", name, len(b), at, len(want), n, err)
		}
	}
}

// compare checks all files, and that no byte of their contents is on the disk.
func (m *model) compare() {
	m.t.Helper()
	for name, want := range m.files {
		if got := contents(m.t, m.fs, name); !bytes.Equal(got, want) {
			m.t.Fatalf("%s has %d bytes, expected %d, or other contents", name, len(got), len(want))
		}
		info, err := m.fs.Stat(name)
		m.check(err)
		if info.Size() != int64(len(want)) {
			m.t.Fatalf("%s: size %d, expected %d", name, info.Size(), len(want))
		}
		if raw := contents(m.t, m.raw, name); bytes.Contains(raw, []byte(planted[:12])) {
			m.t.Fatalf("%s contains plain text", name)
		}
	}
	names, err := m.fs.List("db")
	m.check(err)
	for _, name := range names {
		if _, ok := m.files["db/"+name]; !ok && strings.HasSuffix(name, ".sst") {
			m.t.Fatalf("%s was left behind", name)
		}
	}
}

// TestFilesModel compares random operations on files with a model (EN1, EN2).
func TestFilesModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := newModel(t)
		for range 60 {
			m.step(byte(r.Uint32()), byte(r.Uint32()), r)
		}
		m.compare()
	}
}

// FuzzFiles runs operations that the fuzzer selects.
func FuzzFiles(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0x12, 9, 2, 7, 0, 8, 0, 6, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		r := rand.New(rand.NewPCG(uint64(len(ops)), 1))
		m := newModel(t)
		for i := 0; i+1 < len(ops) && i < 200; i += 2 {
			m.step(ops[i], ops[i+1], r)
		}
		m.compare()
	})
}

// TestNonces checks that two files with the same contents have different bytes, and that a reused file has a new nonce
// (EN2).
func TestNonces(t *testing.T) {
	raw := vfs.NewMem()
	fs := open(t, raw, options(keyFile(t, 1))).FS()
	seen := map[string]bool{}
	note := func(name string) {
		b := contents(t, raw, name)
		for _, part := range []string{string(b[nonceAt:macAt]), string(b[headerSize:])} {
			if seen[part] {
				t.Errorf("%s repeats bytes of an earlier file", name)
			}
			seen[part] = true
		}
	}
	same := bytes.Repeat([]byte("x"), 100)
	for i := range 50 {
		name := fmt.Sprintf("db/%d.log", i)
		write(t, fs, name, same)
		note(name)
		f, err := fs.ReuseForWrite(name, name+".log", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(same); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		note(name + ".log")
	}
}

// TestReusePlain checks that contents without encryption do not remain in a file that is reused.
func TestReusePlain(t *testing.T) {
	raw := vfs.NewMem()
	fs := open(t, raw, options(keyFile(t, 1))).FS()
	write(t, raw, "db/1.log", bytes.Repeat([]byte(planted), 1000))
	f, err := fs.ReuseForWrite("db/1.log", "db/2.log", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b := contents(t, raw, "db/2.log")
	if bytes.Contains(b, []byte(planted)) || string(contents(t, fs, "db/2.log")) != "new" {
		t.Errorf("the file has %d bytes", len(b))
	}
}

// TestUnwritten checks that sectors that a crash left unwritten are read as zeros, in one read and in reads of any
// length (EN5).
func TestUnwritten(t *testing.T) {
	raw := vfs.NewMem()
	fs := open(t, raw, options(keyFile(t, 1))).FS()
	want := bytes.Repeat([]byte(planted), 200)
	write(t, fs, "db/1.log", want)
	b := contents(t, raw, "db/1.log")
	// Sectors 2, 3, and the incomplete last one with its predecessor are unwritten.
	last := len(b) / sector
	for _, s := range []int{2, 3, last - 1, last} {
		part := b[s*sector : min(len(b), (s+1)*sector)]
		clear(part)
		clear(want[s*sector-headerSize:][:len(part)])
	}
	write(t, raw, "db/1.log", b)
	if got := contents(t, fs, "db/1.log"); !bytes.Equal(got, want) {
		t.Fatal("unwritten sectors are not zeros")
	}
	f, err := fs.Open("db/1.log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1; size < 1200; size += 7 {
		for at := 0; at < len(want); at += size {
			got := make([]byte, min(size, len(want)-at))
			if _, err := f.ReadAt(got, int64(at)); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want[at:at+len(got)]) {
				t.Fatalf("%d bytes at %d differ", size, at)
			}
		}
	}
}

// TestHeaders checks files whose header is truncated, unwritten, damaged, or written with an unknown key or by a newer
// version.
func TestHeaders(t *testing.T) {
	raw := vfs.NewMem()
	fs := open(t, raw, options(keyFile(t, 1))).FS()
	write(t, fs, "db/1.sst", []byte("contents"))
	whole := contents(t, raw, "db/1.sst")
	for n := range headerSize {
		write(t, raw, "db/2.sst", whole[:n])
		if n < len(headerMagic) {
			continue // shorter than the magic
		}
		if got := contents(t, fs, "db/2.sst"); len(got) > 0 {
			t.Errorf("a header of %d bytes: %q", n, got)
		}
		if info, err := fs.Stat("db/2.sst"); err != nil || info.Size() != 0 {
			t.Errorf("a header of %d bytes: %v, %v", n, info, err)
		}
	}
	for _, tt := range []struct {
		at   int
		want string
	}{{len(headerMagic), "newer version"}, {16, "not in encryption.keys"},
		{nonceAt, "header of the encrypted file is damaged"}, {macAt, "header of the encrypted file is damaged"}} {
		b := bytes.Clone(whole)
		b[tt.at] ^= 0x80
		write(t, raw, "db/3.sst", b)
		_, err := fs.Open("db/3.sst")
		if err == nil || tt.at >= 16 && !pebble.IsCorruptionError(err) || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), "db/3.sst") {
			t.Errorf("byte %d: %v", tt.at, err)
		}
	}
	write(t, raw, "db/4.log", make([]byte, 1000))
	if got := contents(t, fs, "db/4.log"); !bytes.Equal(got, make([]byte, 1000)) {
		t.Error("an unwritten file does not consist of zeros")
	}
}

// TestFailedWrite checks that a file accepts no write after a failed one, because the keystream would be out of step.
func TestFailedWrite(t *testing.T) {
	raw := vfs.NewMem()
	k := open(t, raw, options(keyFile(t, 1)))
	f, err := k.FS().Create("db/1.log", "")
	if err != nil {
		t.Fatal(err)
	}
	enc := f.(*file) // a log is not tracked
	broken := errors.New("broken")
	enc.File = failing{enc.File, &broken}
	if _, err := f.Write([]byte("a")); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	was := broken
	broken = nil
	if _, err := f.Write([]byte("a")); !errors.Is(err, was) {
		t.Errorf("the next write: %v", err)
	}
}

type failing struct {
	vfs.File
	err *error
}

func (f failing) Write(b []byte) (int, error) {
	if *f.err != nil {
		return 0, *f.err
	}
	return f.File.Write(b)
}
