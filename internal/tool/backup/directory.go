// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// directory is a Target in the file system.
type directory string

// top implements listed.
func (d directory) top(context.Context) (out []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), newName) {
			out = append(out, e.Name())
		}
	}
	return out, err
}

const (
	// newName is the prefix of incomplete files, which are stored in the top-level directory.
	newName = ".new-"
	// newAge is the age above which an incomplete file is abandoned.
	newAge = 24 * time.Hour
	// renameTries is the maximum number of attempts to create the directory of a new file. A process that removes the
	// last file in a directory also removes the directory.
	renameTries = 8
)

// begin creates the directory and removes abandoned files.
func (d directory) begin(now time.Time) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), newName) {
			continue
		}
		if info, bad := e.Info(); bad == nil && now.Sub(info.ModTime()) > newAge {
			_ = os.Remove(d.path(e.Name())) // another process may have removed the directory
		}
	}
	return err
}

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Put implements Target.
func (d directory) Put(_ context.Context, name string, data []byte) error {
	path := d.path(name)
	f, err := os.CreateTemp(string(d), newName+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = place(f.Name(), path)
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

// place renames a file and creates the directory of the new name if necessary.
func place(file, path string) (err error) {
	for range renameTries {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err = os.Rename(file, path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
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
		case strings.HasPrefix(e.Name(), newName): // earlier versions stored incomplete files next to complete files
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
	_ = os.Remove(filepath.Dir(d.path(name))) // Remove succeeds only if the directory is empty
	return err
}
