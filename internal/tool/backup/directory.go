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

// directory is a Target.
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
	// newName begins the name of a file that is being written, or was when a process died. They are at the top.
	newName = ".new-"
	// newAge is the age from which nobody writes such a file any more.
	newAge = 24 * time.Hour
	// renameTries bounds how often the directory of a new file is made: who removes its last file removes it, too.
	renameTries = 8
)

// begin makes the directory, and removes what processes that died had begun to write.
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
			_ = os.Remove(d.path(e.Name())) // another may have been faster
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

// place gives a file its name, in a directory that is made if it is not there.
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
		case strings.HasPrefix(e.Name(), newName): // earlier builds had them beside the files
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
