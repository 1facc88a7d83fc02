// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/migration/cells"
)

// Tally is what was found in one or many ranges.
type Tally struct {
	// Source and Target are the rows of both sides before anything was written; static cells count as a row.
	Source, Target int64
	// SourceDigest and TargetDigest are those of the rows.
	SourceDigest, TargetDigest cells.Digest
	// Different are rows that differ; Written, Deleted, Kept and Refused are what became of them.
	Different, Written, Deleted, Kept, Refused int64
}

func (t *Tally) add(o *Tally) {
	t.Source += o.Source
	t.Target += o.Target
	t.SourceDigest.Add(o.SourceDigest)
	t.TargetDigest.Add(o.TargetDigest)
	t.Different += o.Different
	t.Written += o.Written
	t.Deleted += o.Deleted
	t.Kept += o.Kept
	t.Refused += o.Refused
}

// Difference is a row that differs.
type Difference struct{ Table, Key, What string }

// rangeState is how far a range is.
type rangeState struct {
	// Pass is the last pass that has done it.
	Pass int `json:"pass"`
	// Bound is the time up to which what the target has may have been copied, in microseconds; see cells.Differ.
	Bound int64 `json:"bound"`
	Tally Tally `json:"tally"`
}

// tableState is how far a table is.
type tableState struct {
	Keyspace, Table string
	// Fresh says that it had no rows when the first pass began, so that what it has was copied.
	Fresh  bool
	Ranges []rangeState
}

func (t *tableState) name() bulk.Name { return bulk.Name{Keyspace: t.Keyspace, Table: t.Table} }

// The modes of a pass.
const (
	modeCopy   = "copy"
	modeVerify = "verify"
	modeRepair = "repair"
)

// state is what a migration needs to go on after it was killed.
type state struct {
	// Source and Selection tell it from another one.
	Source, Selection string
	Tables            []*tableState
	// Pass counts the passes; Mode is that of the one under way, "" if it has ended.
	Pass int
	Mode string
	// Begun is when it began; Alive is when this was written.
	Begun, Alive time.Time
	// ErrorBytes is how long the error file is; Differences are the first of the pass.
	ErrorBytes  int64
	Differences []Difference
}

// clockSlack is how long after Alive a process that was killed may have written.
const clockSlack = 3 * time.Second

// ledger keeps the state in its file.
type ledger struct {
	path, errorPath string
	mu              sync.Mutex // guards all below
	state           state
	errors          *os.File
}

// open reads the checkpoint; resumed says that there was one.
func (l *ledger) open(source, selection string, restart bool) (resumed bool, err error) {
	fresh := state{Source: source, Selection: selection}
	if l.state = fresh; restart {
		return false, nil
	}
	var old state
	if resumed, err = bulk.LoadJSON(l.path, &old); err != nil || !resumed {
		return false, err
	}
	if old.Source != source || old.Selection != selection {
		return false, fmt.Errorf("%s is of another import (from %s): give --restart to begin anew, or another --checkpoint",
			l.path, old.Source)
	}
	if old.Mode == modeCopy { // it was killed within a pass: what it wrote may be as new as its last sign of life
		for _, t := range old.Tables {
			for i := range t.Ranges {
				if r := &t.Ranges[i]; t.Fresh && r.Pass < old.Pass {
					r.Bound = max(r.Bound, old.Alive.Add(clockSlack).UnixMicro())
				}
			}
		}
	}
	l.state = old
	return true, nil
}

// save writes the checkpoint, behind the refused rows that it counts.
func (l *ledger) save() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errors != nil {
		if err := l.errors.Sync(); err != nil {
			return err
		}
	}
	l.state.Alive = time.Now()
	return bulk.SaveJSON(l.path, &l.state)
}

// keepSaving saves each second, or as often as takes a twentieth of the time, until stop is closed.
func (l *ledger) keepSaving(stop <-chan struct{}, failed func(error)) {
	for pause := time.Second; ; {
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		began := time.Now()
		if err := l.save(); err != nil {
			failed(err)
			return
		}
		pause = max(time.Second, 20*time.Since(began))
	}
}

// begin begins a pass, or goes on with one of the same mode.
func (l *ledger) begin(mode string) error {
	l.mu.Lock()
	if s := &l.state; s.Mode != mode {
		s.Mode, s.Differences, s.Begun = mode, nil, time.Now()
		s.Pass++
	}
	l.mu.Unlock()
	return l.save()
}

// refusal is a line of the error file.
type refusal struct {
	Table  string `json:"table"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// done records a range: what was refused of it, how it differs, and that it is done.
func (l *ledger) done(t *tableState, i int, r rangeState, refused []refusal, differ []Difference) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused(refused); err != nil {
		return err
	}
	s := &l.state
	s.Differences = append(s.Differences, differ[:min(len(differ), listed-len(s.Differences))]...)
	r.Pass = s.Pass
	t.Ranges[i] = r
	return nil
}

// refused appends to the error file, which is cut to what the checkpoint knows of when it is first needed.
func (l *ledger) refused(lines []refusal) error {
	for _, r := range lines {
		if l.errors == nil {
			f, err := os.OpenFile(l.errorPath, os.O_CREATE|os.O_RDWR, 0o600)
			if err == nil {
				err = f.Truncate(l.state.ErrorBytes)
			}
			if err == nil {
				_, err = f.Seek(0, io.SeekEnd)
			}
			if err != nil {
				return err
			}
			l.errors = f
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := l.errors.Write(append(text, '\n')); err != nil {
			return err
		}
		l.state.ErrorBytes += int64(len(text)) + 1
	}
	return nil
}

// total is what the pass has found so far; done counts its ranges.
func (l *ledger) total() (sum Tally, done int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.state.Tables {
		for i := range t.Ranges {
			if r := &t.Ranges[i]; r.Pass == l.state.Pass {
				sum.add(&r.Tally)
				done++
			}
		}
	}
	return sum, done
}

func (l *ledger) close() error {
	err := l.save()
	if l.errors != nil {
		err = errors.Join(err, l.errors.Close())
	}
	return err
}

// selectionText is what tells a selection from another one.
func selectionText(o *Options) string {
	var b strings.Builder
	fmt.Fprint(&b, o.Select.Keyspaces, o.Select.Tables, o.Select.Exclude)
	return b.String()
}
