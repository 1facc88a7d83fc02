// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"os"
	"path/filepath"
)

// filesMax is the maximum number of files. The current file is audit.log. Older files are audit.log.1, audit.log.2,
// and so on. The oldest file has the highest number.
const filesMax = 8

// files writes to a file until the file is full, and then rotates the files.
type files struct {
	dir   string
	each  int64 // maximum size of a file in bytes
	f     *os.File
	bytes int64
	// sealer encrypts what is written, or is nil.
	sealer Sealer
}

func openFiles(dir string, total int64, sealer Sealer) (*files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	w := &files{dir: dir, each: total / filesMax, sealer: sealer}
	return w, w.open()
}

func (w *files) path(i int) string {
	if i == 0 {
		return filepath.Join(w.dir, "audit.log")
	}
	return filepath.Join(w.dir, fmt.Sprintf("audit.log.%d", i))
}

func (w *files) open() error {
	f, err := os.OpenFile(w.path(0), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	w.f, w.bytes = f, info.Size()
	return nil
}

// Write writes complete lines. After an error, it reopens the file. Encrypted lines are written as one record, of which
// a failed write leaves nothing readable.
func (w *files) Write(lines []byte) (int, error) {
	if len(lines) == 0 {
		return 0, nil
	}
	if w.sealer == nil {
		return w.write(lines)
	}
	record, err := w.sealer.Seal(lines)
	if err != nil {
		return 0, err
	}
	if _, err := w.write(record); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// write writes bytes to the current file, or to a new file if it is full.
func (w *files) write(lines []byte) (int, error) {
	if w.f == nil {
		if err := w.open(); err != nil {
			return 0, err
		}
	}
	if w.bytes > 0 && w.bytes+int64(len(lines)) > w.each {
		if err := w.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := w.f.Write(lines)
	w.bytes += int64(n)
	if err != nil {
		_ = w.f.Close()
		w.f = nil
	}
	return n, err
}

// rotate increments the number of every file, and deletes the oldest file.
func (w *files) rotate() error {
	_ = w.f.Close() // write errors have already been reported
	w.f = nil
	for i := filesMax - 2; i >= 0; i-- {
		if err := os.Rename(w.path(i), w.path(i+1)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return w.open()
}

// Close closes the file.
func (w *files) Close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}
