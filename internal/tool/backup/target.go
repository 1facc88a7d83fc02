// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Target is where backups are kept: files that are written once, by names with slashes. Its methods may be called
// concurrently.
type Target interface {
	// Put stores a file as a whole or not at all, durably. One of the name is replaced.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns a file; an error that is fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Has reports whether there is one.
	Has(ctx context.Context, name string) (bool, error)
	// List returns the names that begin with a prefix, which ends with a slash, in ascending order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Remove removes a file; nothing happens if there is none.
	Remove(ctx context.Context, name string) error
}

// Open returns the target of a name: a directory. It is made if make is set.
func Open(_ context.Context, name string, create bool) (Target, error) {
	if name == "" {
		return nil, errors.New("a backup needs a place: give a directory")
	}
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		return nil, fmt.Errorf("%s is no place for backups: give a directory, %s:// is not spoken", name, scheme)
	}
	d := directory(filepath.Clean(name))
	if create {
		if err := os.MkdirAll(string(d), 0o700); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there are no backups in %s: no such directory", d)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !slices.Contains([]string{"files", "backups", "pending"}, e.Name()) {
			return nil, fmt.Errorf("%s has %s in it, which is nothing of a backup: give a directory of its own", d, e.Name())
		}
	}
	return d, nil
}

// directory is a Target.
type directory string

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Put implements Target.
func (d directory) Put(_ context.Context, name string, data []byte) error {
	path := d.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	for dir := filepath.Dir(path); len(dir) >= len(d); dir = filepath.Dir(dir) {
		if err := syncDir(dir); err != nil {
			return err
		}
		if dir == string(d) || dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements Target.
func (d directory) Get(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(d.path(name))
}

// Has implements Target.
func (d directory) Has(_ context.Context, name string) (bool, error) {
	_, err := os.Stat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List implements Target.
func (d directory) List(_ context.Context, prefix string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(d.path(prefix), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || e.IsDir():
			return err
		case strings.HasPrefix(e.Name(), ".new-"): // of a process that died
			return nil
		}
		rel, err := filepath.Rel(string(d), path)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	slices.Sort(out)
	return out, err
}

// Remove implements Target.
func (d directory) Remove(_ context.Context, name string) error {
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_ = os.Remove(filepath.Dir(d.path(name))) // if nothing else is in it
	return err
}

// fileName is where a file of a digest is.
func fileName(digest string) string { return "files/" + digest[:2] + "/" + digest }

// manifestName is where the manifest of a backup is.
func manifestName(id string) string { return "backups/" + id + "/manifest" }
