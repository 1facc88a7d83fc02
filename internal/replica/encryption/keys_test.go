// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestKeyErrors checks that wrong, missing, and old keys are rejected by their fingerprints, and that no file changes
// (EN4).
func TestKeyErrors(t *testing.T) {
	first, second, third := keyFile(t, 1), keyFile(t, 2), keyFile(t, 3)
	print := func(s KeySource) string {
		k, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return k.Fingerprint()
	}
	raw := vfs.NewMem()
	write(t, open(t, raw, options(first)).FS(), "db/1.sst", []byte("contents"))
	rotated := vfs.NewMem()
	o := options(first)
	o.Key.File = filepath.Join(t.TempDir(), "key")
	move := func(from KeySource) {
		b, err := os.ReadFile(from.File)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(o.Key.File, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	move(first)
	k := open(t, rotated, o)
	write(t, k.FS(), "db/1.sst", []byte("contents"))
	move(second)
	if r, err := k.Rotate(t.Context()); err != nil || r.Previous != print(first) || r.StoreKey != print(second) {
		t.Fatalf("rotate: %+v, %v", r, err)
	}
	move(first)
	if _, err := k.Rotate(t.Context()); err == nil || !strings.Contains(err.Error(), "is an old key") {
		t.Errorf("rotate to the old key: %v", err)
	}
	missing := KeySource{File: filepath.Join(t.TempDir(), "none")}
	for _, tt := range []struct {
		name string
		fs   vfs.FS
		o    Options
		want []string
	}{
		{"no key", raw, options(KeySource{}), []string{print(first), "no key is configured"}},
		{"missing file", raw, options(missing), []string{print(first), missing.File, "no such file"}},
		{"wrong key", raw, options(second), []string{print(first), print(second), "wrong store key", "old_key_file"}},
		{"wrong old key", raw, Options{Key: second, Old: third, Dirs: []string{"db"}},
			[]string{print(first), print(second), print(third), "wrong store key"}},
		{"missing old key", raw, Options{Key: second, Old: missing, Dirs: []string{"db"}},
			[]string{print(first), missing.File}},
		{"old key", rotated, options(first), []string{print(first), print(second), "is an old key"}},
	} {
		before := contents(t, tt.fs, "db/"+RegistryFile)
		_, err := Open(t.Context(), tt.fs, tt.o)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, expected %q", tt.name, err, want)
			}
		}
		if !bytes.Equal(before, contents(t, tt.fs, "db/"+RegistryFile)) {
			t.Errorf("%s: the registry has changed", tt.name)
		}
	}
	// The old key replaces the key of a stopped node, but only when a file is written.
	k = open(t, raw, Options{Key: second, Old: first, Dirs: []string{"db"}})
	if got := string(contents(t, k.FS(), "db/1.sst")); got != "contents" {
		t.Errorf("with the old key: %q", got)
	}
	if found, err := loadRegistry(raw, "db"); err != nil || found.StoreKey != print(first) {
		t.Errorf("before a write: %+v, %v", found, err)
	}
	write(t, k.FS(), "db/2.sst", nil)
	if k = open(t, raw, options(second)); k.Summary().StoreKey != print(second) {
		t.Errorf("after a write: %+v", k.Summary())
	}
}

// TestPlainDirectory checks directories without a registry, and switching encryption off.
func TestPlainDirectory(t *testing.T) {
	raw, key := vfs.NewMem(), keyFile(t, 1)
	if k := open(t, raw, options(KeySource{})); k != nil {
		t.Error("keys without a key")
	}
	write(t, raw, "db/1.sst", []byte("plain"))
	write(t, raw, "db/LOCK")
	k := open(t, raw, options(key))
	if got := string(contents(t, k.FS(), "db/1.sst")); got != "plain" {
		t.Errorf("a file without encryption: %q", got)
	}
	write(t, k.FS(), "db/2.sst", []byte("encrypted"))
	write(t, k.FS(), "db/ilion.id", []byte("identity"))
	if s, err := k.Status(); err != nil || s.Plain != (Count{1, 5}) || s.Encrypted.Files != 1 || s.Share < 0.5 {
		t.Errorf("status: %+v, %v", s, err)
	}
	if n, more, err := k.Rewrite(t.Context(), time.Now().Add(-time.Second)); err != nil || n.Files != 0 || !more {
		t.Errorf("rewrite without time: %+v, %t, %v", n, more, err)
	}
	if n, more, err := k.Rewrite(t.Context(), time.Time{}); err != nil || n.Files != 1 || more {
		t.Errorf("rewrite: %+v, %t, %v", n, more, err)
	}
	if s, err := k.Status(); err != nil || s.Plain.Files != 0 || s.Share != 1 {
		t.Errorf("after the rewrite: %+v, %v", s, err)
	}
	off := options(key)
	off.Decrypt = true
	k = open(t, raw, off)
	write(t, k.FS(), "db/3.sst", []byte("plain"))
	if done, err := k.Forget(); done || err != nil {
		t.Errorf("forget too early: %t, %v", done, err)
	}
	if n, _, err := k.Rewrite(t.Context(), time.Time{}); err != nil || n.Files != 2 {
		t.Errorf("rewrite: %+v, %v", n, err)
	}
	if done, err := k.Forget(); !done || err != nil {
		t.Errorf("forget: %t, %v", done, err)
	}
	if k = open(t, raw, options(KeySource{})); k != nil || string(contents(t, raw, "db/1.sst")) != "plain" {
		t.Error("the directory is not plain")
	}
	if k = open(t, raw, off); k != nil {
		t.Error("keys of a directory that is switched off")
	}
	k = open(t, raw, options(key))
	write(t, k.FS(), "db/raft/1.log", []byte("encrypted"))
	for _, name := range []string{RegistryFile, registryCopy} {
		if err := raw.Remove("db/" + name); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []KeySource{{}, key} {
		if _, err := Open(t.Context(), raw, options(key)); err == nil ||
			!strings.Contains(err.Error(), "encryption.keys is missing") {
			t.Errorf("without the registry: %v", err)
		}
	}
}

// TestRegistryDamage flips every bit of both files of the registry.
func TestRegistryDamage(t *testing.T) {
	raw, key := vfs.NewMem(), keyFile(t, 1)
	write(t, open(t, raw, options(key)).FS(), "db/1.sst", []byte("contents"))
	whole := contents(t, raw, "db/"+RegistryFile)
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		write(t, raw, "db/"+RegistryFile, b)
		k := open(t, raw, options(key))
		if got := string(contents(t, k.FS(), "db/1.sst")); got != "contents" || !k.pending.Load() {
			t.Fatalf("bit %d: the copy was not used: %q", i, got)
		}
		write(t, raw, "db/"+registryCopy, b)
		_, err := Open(t.Context(), raw, options(key))
		if err == nil || !strings.Contains(err.Error(), "db/encryption.keys") {
			t.Fatalf("bit %d of both files: %v", i, err)
		}
		write(t, raw, "db/"+registryCopy, whole)
	}
	k := open(t, raw, options(key))
	write(t, k.FS(), "db/2.sst", nil)
	if found, err := loadRegistry(raw, "db"); err != nil || found.outdated {
		t.Errorf("the damaged file was not replaced: %v, %v", found, err)
	}
	write(t, raw, "db/"+RegistryFile, fmt.Appendf(nil, "{\"format\":2}\n%s", registrySum([]byte("{\"format\":2}\n"))))
	if _, err := Open(t.Context(), raw, options(key)); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("a newer registry: %v", err)
	}
}

// TestRegistryCrash crashes at every operation of creating and changing a registry. Afterward, either the old or the
// new store key must open the directory, and all synced files must be readable (EN3).
func TestRegistryCrash(t *testing.T) {
	first, second := keyFile(t, 1), keyFile(t, 2)
	for at := int64(0); ; at++ {
		mem := vfs.NewCrashableMem()
		var left atomic.Int64
		left.Store(1 << 40)
		raw := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left.Add(-1) < 0 {
				return syscall.EIO
			}
			return nil
		}))
		o := options(first)
		k := open(t, raw, o)
		syncParents(t, mem)
		left.Store(at)
		names := []string{}
		step := func(name string) error {
			f, err := k.FS().Create(name, "")
			if err != nil {
				return err
			}
			if _, err = f.Write([]byte(planted)); err != nil {
				return err
			}
			if err := f.Sync(); err != nil {
				return err
			}
			if err := syncDir(raw, "db"); err != nil {
				return err
			}
			names = append(names, name)
			return nil
		}
		err := step("db/1.sst")
		if err == nil {
			k.o.Key = second
			_, err = k.Rotate(t.Context())
		}
		if err == nil {
			err = step("db/2.sst")
		}
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		var again *Keys
		for _, key := range []KeySource{second, first} {
			var openErr error
			if again, openErr = Open(context.Background(), crashed, options(key)); openErr == nil {
				break
			}
		}
		if again == nil {
			t.Fatalf("operation %d: no key opens the directory", at)
		}
		for _, name := range names {
			if got := string(contents(t, again.FS(), name)); got != planted {
				t.Fatalf("operation %d: %s: %q", at, name, got)
			}
		}
		if err == nil {
			return
		}
	}
}

func syncParents(t *testing.T, fs vfs.FS) {
	t.Helper()
	for _, dir := range []string{"", "db"} {
		if err := syncDir(fs, dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoProcesses checks that a process that lost the race for a directory does not overwrite the data keys of the
// other.
func TestTwoProcesses(t *testing.T) {
	raw, key := vfs.NewMem(), keyFile(t, 1)
	one, two := open(t, raw, options(key)), open(t, raw, options(key))
	write(t, one.FS(), "db/1.sst", []byte("contents"))
	if _, err := two.FS().Create("db/2.sst", ""); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the second process: %v", err)
	}
	if got := string(contents(t, open(t, raw, options(key)).FS(), "db/1.sst")); got != "contents" {
		t.Errorf("the file of the first process: %q", got)
	}
}

// TestRotateIfDue checks when data keys are replaced.
func TestRotateIfDue(t *testing.T) {
	raw, key := vfs.NewMem(), keyFile(t, 1)
	k := open(t, raw, options(key))
	write(t, k.FS(), "db/1.sst", []byte("contents"))
	due := func(now time.Time) bool {
		_, ok, err := k.RotateIfDue(now)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if due(time.Now()) || !due(time.Now().Add(2*time.Hour)) {
		t.Error("not replaced by age")
	}
	k.o.Bits = 256
	if !due(time.Now()) || due(time.Now()) || k.Summary().Bits != 256 {
		t.Error("not replaced by size of the key")
	}
	k.written.Store(rotationBytes)
	if !due(time.Now()) || due(time.Now()) {
		t.Error("not replaced by size")
	}
	if s, err := k.Status(); err != nil || s.DataKeys != 4 || s.Outdated.Files != 1 || k.Rotations() != 3 {
		t.Errorf("status: %+v, %v", s, err)
	}
}

// TestKeyCommand checks commands that hang, fail, or print too much or no key.
func TestKeyCommand(t *testing.T) {
	hex := strings.Repeat("ab", keyBytes)
	program := func(text string) KeySource {
		name := filepath.Join(t.TempDir(), "key.sh")
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return KeySource{Command: name + " an-argument"}
	}
	if _, err := program("test \"$1\" = an-argument && echo " + hex).Read(t.Context()); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"garbage", "echo no key", "expected 64 hexadecimal digits"},
		{"empty", "true", "expected 64 hexadecimal digits"},
		{"binary", "head -c 32 /dev/zero", "expected 64 hexadecimal digits"},
		{"endless", "exec yes", "did not end within"},
		{"hangs", "exec sleep 100", "did not end within"},
		{"keeps its output open", "sleep 100 & sleep 100", "did not end within"},
		{"fails", "echo ' no\n access' >&2; exit 3", `exit status 3 ("no access")`},
		{"fails after a key", "echo " + hex + "; exit 1", "exit status 1"},
	} {
		s := program(tt.text)
		text, err := s.run(t.Context(), 300*time.Millisecond)
		if err == nil {
			_, err = s.decode(text)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(text) > sourceMax {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, tt := range []struct{ command, want string }{{" ", "the command is empty"},
		{"/no/such/program x", "no such file"}} {
		_, err := (KeySource{Command: tt.command}).Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v", tt.command, err)
		}
	}
}

// TestKeyFile checks the contents of key files.
func TestKeyFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	made, err := MakeKey(name)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := (KeySource{File: name}).Read(t.Context()); err != nil || read.Fingerprint() != made.Fingerprint() {
		t.Errorf("%v, %v", read, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := MakeKey(name); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("an existing file: %v", err)
	}
	for _, text := range []string{"", "abc", strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("z", 64),
		strings.Repeat("a", 10_000)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (KeySource{File: name}).Read(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "expected 64 hexadecimal digits") || strings.Contains(err.Error(), "aaa") {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	if _, err := (KeySource{File: t.TempDir()}).Read(t.Context()); err == nil {
		t.Error("a directory is a key")
	}
}
