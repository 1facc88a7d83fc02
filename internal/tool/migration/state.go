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
	"github.com/ilion-db/ilion/internal/tool/migration/rowdiff"
)

// Tally is the result for one range or several ranges.
type Tally struct {
	// Source and Target are the numbers of rows on both sides before any writes. The static cells of a logical
	// partition count as one row.
	Source, Target int64
	// SourceDigest and TargetDigest are the digests of the rows.
	SourceDigest, TargetDigest rowdiff.Digest
	// Different is the number of rows that differ. Written, Deleted, Kept, and Refused count the outcomes for these
	// rows.
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

// rangeState is the progress of a range.
type rangeState struct {
	// Pass is the last pass that has completed the range.
	Pass int `json:"pass"`
	// Bound is the time, in microseconds, up to which data in the target may be copied data (see rowdiff.Differ).
	Bound int64 `json:"bound"`
	Tally Tally `json:"tally"`
}

// tableState is the progress of a table.
type tableState struct {
	Keyspace, Table string
	// Fresh is set if the table was empty before the first pass. In this case, all rows of the table are copied rows.
	Fresh  bool
	Ranges []rangeState
}

func (t *tableState) name() bulk.Name { return bulk.Name{Keyspace: t.Keyspace, Table: t.Table} }

// These are the modes of a pass.
const (
	modeCopy   = "copy"
	modeVerify = "verify"
	modeRepair = "repair"
)

// state is the state that a migration needs to resume after a kill.
type state struct {
	// Source and Selection identify the migration.
	Source, Selection string
	Tables            []*tableState
	// Pass is the number of passes. Mode is the mode of the pass in progress. It is "" if the pass has ended.
	Pass int
	Mode string
	// Begun is the start time of the pass. Alive is the time at which this state was written.
	Begun, Alive time.Time
	// ErrorBytes is the length of the error file. Differences holds the first differences of the pass.
	ErrorBytes  int64
	Differences []Difference
}

// clockSlack is the time after Alive during which a process may have written data before it was killed.
const clockSlack = 3 * time.Second

// ledger stores the state in its file.
type ledger struct {
	path, errorPath string
	mu              sync.Mutex // protects the following fields
	state           state
	errors          *os.File
}

// open reads the checkpoint. resumed reports whether a checkpoint was found.
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
		return false, fmt.Errorf("%s belongs to another import (from %s). Use --restart to start over, or specify another --checkpoint",
			l.path, old.Source)
	}
	if old.Mode == modeCopy { // the pass was killed, so it may have written until shortly after its last save
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

// save writes the rejected rows first, and then the checkpoint that counts them.
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

// keepSaving saves the state until stop is closed. It saves the state once per second, or less often if a save would
// take more than a twentieth of the time.
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

// begin starts a pass or resumes a pass with the same mode.
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

// done records the result of a range, which consists of the rejected rows, the differences, and the completion of the
// range.
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

// refused appends lines to the error file. On first use, it truncates the file to the length in the checkpoint.
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

// total returns the result of the pass so far. done is the number of completed ranges.
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

// selectionText returns a text that identifies the selection of a migration.
func selectionText(o *Options) string {
	var b strings.Builder
	fmt.Fprint(&b, o.Select.Keyspaces, o.Select.Tables, o.Select.Exclude)
	return b.String()
}
