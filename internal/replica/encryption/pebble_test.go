// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/diskfs"
	"github.com/ilion-db/ilion/internal/replica/pebblecheck"
)

type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// openPebble opens a store as package storage does.
func openPebble(t *testing.T, fs vfs.FS) (*pebble.DB, *diskfs.FS) {
	t.Helper()
	if err := errors.Join(pebblecheck.Check(fs, "db"), pebblecheck.CheckLogs(fs, "db")); err != nil {
		t.Fatal(err)
	}
	g := diskfs.New(fs, "db", diskfs.Options{Logger: silent{}})
	db, err := pebble.Open("db", &pebble.Options{FS: g, Logger: silent{}, MemTableSize: 64 << 10,
		FormatMajorVersion: pebble.FormatValueSeparation})
	if err != nil {
		t.Fatal(err)
	}
	g.MarkOpen()
	return db, g
}

// findPlanted returns the files that contain a planted key or value.
func findPlanted(t *testing.T, raw vfs.FS, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		names, err := raw.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			f, err := raw.Open(dir + "/" + name)
			if errors.Is(err, os.ErrNotExist) {
				continue // removed after a compaction
			}
			if err != nil {
				t.Fatal(err)
			}
			if info, err := f.Stat(); err == nil && !info.IsDir() {
				b := make([]byte, info.Size())
				if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if bytes.Contains(b, []byte("planted")) {
					found = append(found, name)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return found
}

// TestPebbleCrash runs a store, crashes it, and opens it again, many times. After a crash, any blocks of the data that
// was not synced may be missing. No synced write may be lost, no undamaged file may be reported as damaged, and no
// planted value may be on the disk, even in reused logs.
func TestPebbleCrash(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 7))
		raw, key := vfs.NewCrashableMem(), keyFile(t, 1)
		model := map[string]string{}
		for round := range 12 {
			k := open(t, raw, options(key))
			syncParents(t, raw)
			db, g := openPebble(t, k.FS())
			for name, want := range model {
				got, closer, err := db.Get([]byte(name))
				if err != nil || string(got) != want {
					t.Fatalf("seed %d, round %d: %s: %q, %v, expected %q", seed, round, name, got, err, want)
				}
				if err := closer.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for range 300 {
				name, value := fmt.Sprintf("planted-%d", r.IntN(1000)),
					fmt.Sprintf("planted-%d-%s", r.Uint64(), strings.Repeat("planted", r.IntN(200)))
				if err := db.Set([]byte(name), []byte(value), pebble.Sync); err != nil {
					t.Fatal(err)
				}
				model[name] = value
			}
			if r.IntN(3) == 0 {
				if _, err := k.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for i := range r.IntN(20) { // these writes may be lost
				name := fmt.Sprintf("lost-%d", i)
				if err := db.Set([]byte(name), []byte("planted"), pebble.NoSync); err != nil {
					t.Fatal(err)
				}
			}
			if found := findPlanted(t, raw, "db"); len(found) > 0 {
				t.Fatalf("seed %d, round %d: planted values in %v", seed, round, found)
			}
			crashed := raw.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
			g.Close()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			raw = crashed
		}
	}
}

// TestPebbleSwitch checks that a store is readable while it is switched to encryption, rewritten, and switched back,
// also in a checkpoint with a copy of the registry.
func TestPebbleSwitch(t *testing.T) {
	raw, key := vfs.NewMem(), keyFile(t, 1)
	if err := raw.MkdirAll("db/raft", 0o700); err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("planted"), 100)
	fill := func(db *pebble.DB) {
		for i := range 2000 {
			if err := db.Set(fmt.Appendf(nil, "planted-%d", i), value, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(db *pebble.DB) {
		t.Helper()
		for i := range 2000 {
			got, closer, err := db.Get(fmt.Appendf(nil, "planted-%d", i))
			if err != nil || !bytes.Equal(got, value) {
				t.Fatalf("key %d: %q, %v", i, got, err)
			}
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	db, g := openPebble(t, raw)
	fill(db)
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	k := open(t, raw, options(key))
	db, g = openPebble(t, k.FS())
	check(db)
	if n, _, err := k.Rewrite(t.Context(), time.Time{}); err != nil || n.Files == 0 {
		t.Fatalf("rewrite: %+v, %v", n, err)
	}
	check(db)
	if found := findPlanted(t, raw, "db"); len(found) > 0 {
		t.Errorf("planted values in %v", found)
	}
	if err := g.Checkpoint(db, "copy"); err != nil {
		t.Fatal(err)
	}
	if err := k.CopyRegistry("copy"); err != nil {
		t.Fatal(err)
	}
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(key)
	o.Dirs = []string{"copy"}
	k = open(t, raw, o)
	copied, err := pebble.Open("copy", &pebble.Options{FS: k.FS(), Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	check(copied)
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	off := options(key)
	off.Decrypt = true
	k = open(t, raw, off)
	db, g = openPebble(t, k.FS())
	if _, _, err := k.Rewrite(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	check(db)
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if done, err := k.Forget(); !done || err != nil {
		s, _ := k.Status()
		t.Fatalf("forget: %t, %v, %+v", done, err, s)
	}
	db, g = openPebble(t, raw)
	check(db)
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRewriteDuringCompactions checks that Rewrite and compactions do not disturb each other.
func TestRewriteDuringCompactions(t *testing.T) {
	raw := vfs.NewMem()
	k := open(t, raw, options(keyFile(t, 1)))
	db, g := openPebble(t, k.FS())
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			_, err := k.Rotate(t.Context())
			if err == nil {
				_, _, err = k.Rewrite(t.Context(), time.Time{})
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for i := range 20_000 {
		if err := db.Set(fmt.Appendf(nil, "%06d", i*7919%20_000), fmt.Append(nil, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), []byte("0"), []byte("9"), false); err != nil {
		t.Fatal(err)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		got, closer, err := db.Get(fmt.Appendf(nil, "%06d", i*7919%20_000))
		if err != nil || string(got) != fmt.Sprint(i) {
			t.Fatalf("key %d: %q, %v", i, got, err)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	g.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := raw.List("db")
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, rewriteSuffix) }) {
		t.Errorf("left: %v, %v", names, err)
	}
}
