// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/tool/bucket"
	"github.com/ilion-db/ilion/test/s3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(t *testing.T, of byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{of}, keyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// inBucket returns a repository in a bucket of the server.
func inBucket(s *s3.Server) *Place {
	return &Place{Name: "s3://" + s3.Bucket + "/of/ilion", Bucket: bucket.Options{Endpoint: s.URL,
		Credentials: func() (bucket.Credentials, error) { return bucket.Credentials{ID: "id", Secret: "secret"}, nil }}}
}

func open(t *testing.T, p *Place) Target {
	t.Helper()
	target, err := p.Open(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if o, ok := target.(*objects); ok {
			o.bucket.Close()
		}
		if s, ok := target.(*sealed); ok {
			if o, ok := s.Target.(*objects); ok {
				o.bucket.Close()
			}
		}
	})
	return target
}

// TestTargets checks that all kinds of targets implement Target correctly. The targets must find their files after
// they have been reopened.
func TestTargets(t *testing.T) {
	file := fileName(archive.FileName([]byte("rows")))
	for name, place := range map[string]func(t *testing.T) *Place{
		"directory": func(t *testing.T) *Place { return &Place{Name: t.TempDir()} },
		"bucket":    func(t *testing.T) *Place { return inBucket(s3.New(t, 2)) },
		"encrypted directory": func(t *testing.T) *Place {
			return &Place{Name: filepath.Join(t.TempDir(), "new"), Key: key(t, 1)}
		},
		"encrypted bucket": func(t *testing.T) *Place {
			p := inBucket(s3.New(t, 2))
			p.Key = key(t, 1)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, ctx := place(t), t.Context()
			target := open(t, p)
			put := map[string]string{file: "rows", manifestName("b"): "of b", manifestName("a"): "of a",
				"pending/c/1": ""}
			for name, data := range put {
				if err := target.Put(ctx, name, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			target = open(t, p)
			for name, data := range put {
				got, err := target.Get(ctx, name)
				has, bad := target.Has(ctx, name)
				if err != nil || bad != nil || !has || string(got) != data {
					t.Errorf("%s is %q (%v), want %q: %v %v", name, got, has, data, err, bad)
				}
			}
			for prefix, want := range map[string][]string{"files/": {file}, file[:9]: {file}, "files/zz/": nil,
				"backups/": {manifestName("a"), manifestName("b")}, "pending/": {"pending/c/1"}} {
				if got, err := target.List(ctx, prefix); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s has %q, want %q: %v", prefix, got, want, err)
				}
			}
			for range 2 {
				if err := target.Remove(ctx, file); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := target.Get(ctx, file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a removed file: %v", err)
			}
			if has, err := target.Has(ctx, file); has || err != nil {
				t.Errorf("a removed file exists: %v", err)
			}
		})
	}
}

// TestNoMixing checks that a repository is either encrypted with a single key or not encrypted. If the key is missing,
// wrong, or not expected, the error must name the problem. A directory or bucket with unrelated files must be
// rejected.
func TestNoMixing(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		before, with *Key
		says         string
	}{
		{nil, key(t, 1), "not encrypted"},
		{key(t, 1), nil, "Specify the key"},
		{key(t, 1), key(t, 2), "encrypted with key " + key(t, 1).Fingerprint()},
		{key(t, 1), key(t, 1), ""},
		{nil, nil, ""},
	} {
		p := inBucket(s3.New(t, 10))
		p.Key = c.before
		if err := open(t, p).Put(t.Context(), manifestName("a"), nil); err != nil {
			t.Fatal(err)
		}
		p.Key = c.with
		for _, create := range []bool{true, false} {
			_, err := p.Open(t.Context(), create)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v does not contain %q", err, c.says)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "photo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := s3.New(t, 10)
	s.Change(func(objects map[string][]byte) { objects["of/ilion/photo/1"] = nil })
	for _, p := range []*Place{{Name: dir}, inBucket(s), {Name: dir, Key: key(t, 1)}} {
		if _, err := p.Open(t.Context(), true); err == nil || !strings.Contains(err.Error(), `contains "photo"`) {
			t.Errorf("a repository with unrelated files: %v", err)
		}
	}
	for _, name := range []string{"", "ftp://x/y", "s3://", "s3://UP/x", "s3://shop/a//b", "s3://shop/../x",
		"s3://shop/a\nb"} {
		if _, err := (&Place{Name: name}).Open(t.Context(), true); err == nil {
			t.Errorf("%q was accepted as a repository", name)
		}
	}
}

// TestSealed checks that an encrypted repository does not reveal its contents without the key. Equal files must have
// equal names, because incremental backups require it. A flipped bit must be rejected. The same applies to a truncated
// file, to a file under the name of another file, and to files with unencrypted names.
func TestSealed(t *testing.T) {
	s := s3.New(t, 10)
	p := inBucket(s)
	p.Key = key(t, 1)
	target, ctx := open(t, p), t.Context()
	rows := []byte("nobody may read these rows")
	name := fileName(archive.FileName(rows))
	if err := target.Put(ctx, name, rows); err != nil {
		t.Fatal(err)
	}
	if err := target.Put(ctx, manifestName("a"), rows); err != nil {
		t.Fatal(err)
	}
	var hidden string
	s.Change(func(objects map[string][]byte) {
		for key, data := range objects {
			if strings.Contains(key, archive.FileName(rows)[2:]) || bytes.Contains(data, rows[:8]) {
				t.Errorf("%s reveals its contents", key)
			}
			if strings.Contains(key, "files/") {
				hidden = key
			}
		}
	})
	before := len(hidden)
	if err := target.Put(ctx, name, rows); err != nil {
		t.Fatal(err)
	}
	s.Change(func(objects map[string][]byte) {
		if len(objects) != 3 || before != len("of/ilion/files/xx/")+2*(ivBytes+digestBytes) {
			t.Errorf("%d objects for one file, one manifest, and the key file: %s", len(objects), hidden)
		}
		good := objects[hidden]
		for i := range good {
			objects[hidden] = bytes.Clone(good)
			objects[hidden][i] ^= 1
			if got, err := target.(*sealed).from(objects[hidden], name); err == nil {
				t.Errorf("byte %d was flipped, and the file is accepted as %q", i, got)
			}
		}
		for n := range len(good) {
			if got, err := target.(*sealed).from(good[:n], name); err == nil {
				t.Errorf("the first %d bytes are accepted as %q", n, got)
			}
		}
		objects[hidden] = objects["of/ilion/backups/a/manifest"]
	})
	if got, err := target.Get(ctx, name); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("a manifest is accepted as a file: %q %v", got, err)
	}
	s.Change(func(objects map[string][]byte) {
		objects["of/ilion/files/00/"+strings.Repeat("00", ivBytes+digestBytes)] = nil
		objects["of/ilion/"+name] = nil
	})
	if names, err := target.List(ctx, "files/"); err != nil || !slices.Equal(names, []string{name}) {
		t.Errorf("the repository lists files that were not stored: %q: %v", names, err)
	}
	if other := key(t, 2).seal(nil).hide(name); other == target.(*sealed).hide(name) {
		t.Error("two keys make the same names")
	}
}

// TestSealedBefore checks that this build can read an encrypted repository of an earlier build. The repository
// testdata/encrypted was created in November 2026.
func TestSealedBefore(t *testing.T) {
	target, err := (&Place{Name: filepath.Join("testdata", "encrypted"), Key: key(t, 1)}).Open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{fileName(archive.FileName([]byte("rows"))): "rows",
		manifestName("a"): "of a"} {
		names, err := target.List(t.Context(), name[:strings.IndexByte(name, '/')+1])
		if err != nil || !slices.Equal(names, []string{name}) {
			t.Errorf("listed %q, want %s: %v", names, name, err)
		}
		if got, err := target.Get(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q: %v", name, got, want, err)
		}
	}
}

// TestKeyFiles checks that ReadKey accepts the keys of MakeKey and of other tools. ReadKey must reject all other
// files. MakeKey must not overwrite a key.
func TestKeyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	made, err := MakeKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ReadKey(path); err != nil || read.Fingerprint() != made.Fingerprint() {
		t.Errorf("cannot read the new key: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the key is %v: %v", info.Mode(), err)
	}
	if _, err := MakeKey(path); err == nil {
		t.Error("a key was overwritten")
	}
	digits := strings.Repeat("Ab", keyBytes)
	for text, good := range map[string]bool{digits: true, digits + "\r\n": true, strings.Repeat("\x00", keyBytes): true,
		digits[2:]: false, "": false, digits + "00": false, "-----BEGIN": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(path); (err == nil) != good {
			t.Errorf("%q as a key: %v", text, err)
		}
	}
}

// TestHalfWritten checks the incomplete files of a killed process. They must not be listed as files of a repository,
// and must eventually be removed.
func TestHalfWritten(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	p := &Place{Name: dir}
	old, young := filepath.Join(dir, newName+"1"), filepath.Join(dir, newName+"2")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * newAge)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	target := open(t, p)
	if err := target.Put(ctx, manifestName("a"), nil); err != nil {
		t.Fatal(err)
	}
	earlier := filepath.Join(dir, filepath.Dir(filepath.FromSlash(manifestName("a"))), newName+"3")
	if err := os.WriteFile(earlier, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := target.List(ctx, "backups/"); err != nil || !slices.Equal(got, []string{manifestName("a")}) {
		t.Errorf("listed are %q: %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{filepath.Base(young), "backups"}; !slices.Equal(names, want) {
		t.Errorf("the repository has %q, want %q", names, want)
	}
}
