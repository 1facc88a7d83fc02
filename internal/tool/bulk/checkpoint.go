// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// checkpointEvery is the minimum interval between two checkpoints.
const checkpointEvery = time.Second

// checkpoint is the state that a load needs to resume after it has been killed.
type checkpoint struct {
	Table    string   `json:"table"`
	Files    []input  `json:"files"`
	Position position `json:"position"`
	Loaded   int64    `json:"loaded"`
	Rejected int64    `json:"rejected"`
	// ErrorBytes is the length of the error file.
	ErrorBytes int64 `json:"error_bytes"`
}

// SaveJSON replaces a file with the JSON encoding of v. After a crash, the file has either the old contents or the new
// contents.
func SaveJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir syncs a directory. The entries of the directory then survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// LoadJSON reads a file that SaveJSON wrote. ok is false if the file does not exist.
func LoadJSON(path string, v any) (ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return false, fmt.Errorf("cannot read %s: %w. Delete it to start over", path, err)
	}
	return true, nil
}

// ledger commits blocks in file order. For each block, it writes the rejected rows to the error file and the end of
// the block to the checkpoint.
type ledger struct {
	path, errorPath string // "" if the file is disabled
	errorMax        int64  // -1 means unlimited
	// mu protects the following fields.
	mu      sync.Mutex
	state   checkpoint
	next    int
	waiting map[int]*block
	errors  *os.File
	saved   time.Time
	// closed makes the ledger ignore responses that arrive after its end. The blocks of these responses are loaded
	// again.
	closed bool
	// progress receives the totals.
	progress *Progress
}

var errTooMany = errors.New("too many rows were rejected")

// open resumes from the checkpoint if a checkpoint exists. resumed reports whether it exists.
func (l *ledger) open(table string, files []input, restart bool) (resumed bool, err error) {
	l.state, l.waiting = checkpoint{Table: table, Files: files}, map[int]*block{}
	if l.path == "" || restart {
		return false, nil
	}
	var old checkpoint
	if resumed, err = LoadJSON(l.path, &old); err != nil || !resumed {
		return false, err
	}
	if old.Table != table || !slices.Equal(old.Files, files) {
		return false, fmt.Errorf("%s belongs to another load (of %s), or the files have changed. Use --restart to "+
			"start over, "+
			"or another --checkpoint", l.path, old.Table)
	}
	l.state = old
	return true, nil
}

// openErrors opens the error file on first use. It truncates the file to the length in the checkpoint.
func (l *ledger) openErrors() error {
	if l.errors != nil || l.errorPath == "" {
		return nil
	}
	f, err := os.OpenFile(l.errorPath, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Truncate(l.state.ErrorBytes)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	l.errors = f
	return err
}

// ended marks a block as complete, and commits all blocks that can be committed.
func (l *ledger) ended(b *block) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.waiting[b.seq] = b
	for {
		b, ok := l.waiting[l.next]
		if !ok {
			break
		}
		delete(l.waiting, l.next)
		l.next++
		if err := l.commit(b); err != nil {
			return err
		}
	}
	if time.Since(l.saved) < checkpointEvery {
		return nil
	}
	return l.save()
}

func (l *ledger) commit(b *block) error {
	slices.SortFunc(b.rejects, func(x, y reject) int { return x.Line - y.Line })
	for _, r := range b.rejects {
		if err := l.openErrors(); err != nil {
			return err
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if l.errors != nil {
			if _, err := l.errors.Write(append(line, '\n')); err != nil {
				return err
			}
			l.state.ErrorBytes += int64(len(line)) + 1
		}
	}
	l.state.Loaded += b.loaded.Load()
	l.state.Rejected += int64(len(b.rejects))
	l.state.Position = b.end
	l.progress.Done.Add(b.raw)
	l.progress.Rejected.Store(l.state.Rejected)
	if l.errorMax >= 0 && l.state.Rejected > l.errorMax {
		first := ""
		if len(b.rejects) > 0 {
			first = fmt.Sprintf("; the last: %s:%d: %s", b.rejects[0].File, b.rejects[0].Line, b.rejects[0].Reason)
		}
		return fmt.Errorf("%w: %d, --max-errors is %d%s", errTooMany, l.state.Rejected, l.errorMax, first)
	}
	return nil
}

// save writes the rejected rows first, and then the checkpoint that counts them.
func (l *ledger) save() error {
	l.saved = time.Now()
	if l.errors != nil {
		if err := l.errors.Sync(); err != nil {
			return err
		}
	}
	if l.path == "" {
		return nil
	}
	return SaveJSON(l.path, l.state)
}

// close ends the ledger. done reports whether all rows have been loaded. In that case, a later run need not resume.
func (l *ledger) close(done bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	err := l.save()
	if l.errors != nil {
		err = errors.Join(err, l.errors.Close())
	}
	if done && err == nil && l.path != "" {
		err = os.Remove(l.path)
	}
	return err
}
