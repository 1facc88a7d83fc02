// SPDX-License-Identifier: Apache-2.0

// Package audit writes down who asked for what, from where, and what became of it: a line for each request, to files
// of bounded size and number or to syslog.
//
// Guarantees: (AL1) Write never waits for the disk, unless Block asks that nothing be lost; (AL2) what waits to be
// written is bounded, and what was dropped is counted, logged and written down; (AL3) nothing that a client sends
// begins a line or a field of its own.
//
// It does not know what statements mean: passwords are gone from the entries that it is given. Start at Log.Write.
package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/query/parser"
)

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	o   Options
	out io.WriteCloser
	log *slog.Logger

	categories, users, keyspaces filter

	mu      sync.Mutex
	room    sync.Cond // there is room in waiting, or closed is true
	work    sync.Cond // there is something in waiting, or closed is true
	waiting []byte    // whole lines; at most Options.QueueBytes
	closed  bool
	dropped uint64 // that were not written down yet
	total   uint64
	said    time.Time // when it was logged last that entries were dropped
	done    chan struct{}
	closing chan struct{} // closed with the log
}

const (
	// sayEvery is how often it is logged, at most, that entries are dropped.
	sayEvery = time.Minute
	// againAfter is the pause before a write that failed is tried again, with Block.
	againAfter = 100 * time.Millisecond
)

// Open opens a log; dir is where its files go if the options name no other place. log hears of lines that could not be
// written; nil: nobody does.
func Open(o Options, dir string, log *slog.Logger) (*Log, error) {
	o = o.withDefaults(dir)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := newLog(o, log)
	l.categories = newFilter(o.IncludedCategories, o.ExcludedCategories)
	l.users = newFilter(o.IncludedUsers, o.ExcludedUsers)
	l.keyspaces = newFilter(o.IncludedKeyspaces, o.excludedKeyspaces())
	var err error
	if o.Logger == Syslog {
		l.out, err = openSyslog()
	} else {
		l.out, err = openFiles(o.Dir, o.FileBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	go l.run()
	return l, nil
}

func newLog(o Options, log *slog.Logger) *Log {
	l := &Log{o: o, log: log, done: make(chan struct{}), closing: make(chan struct{})}
	l.room.L, l.work.L = &l.mu, &l.mu
	return l
}

// Wants reports whether an entry of a category, by a user, about a keyspace would be written.
func (l *Log) Wants(category, user, keyspace string) bool {
	return l.categories.has(category) && l.users.has(user) && (keyspace == "" || l.keyspaces.has(keyspace))
}

// Write writes an entry down, if the options want it.
func (l *Log) Write(e *Entry) {
	if !l.Wants(e.Category, e.User, e.Keyspace) {
		return
	}
	if l.o.NoLiterals {
		e.Operation = parser.WithoutConstants(e.Operation)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.waiting)
	line := e.append(l.waiting)
	for len(line) > l.o.QueueBytes && before > 0 && l.o.Block && !l.closed {
		l.room.Wait()
		before = len(l.waiting)
		line = e.append(l.waiting)
	}
	if l.closed || len(line) > l.o.QueueBytes && before > 0 {
		l.drop(1)
		return
	}
	l.waiting = line
	l.work.Signal()
}

// drop counts entries that are not written, and says so from time to time. Its caller holds mu.
func (l *Log) drop(n uint64) {
	l.dropped += n
	l.total += n
	if now := time.Now(); now.Sub(l.said) >= sayEvery {
		l.said = now
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "entries of the audit log are dropped",
			slog.Uint64("dropped_since_start", l.total))
	}
}

// Dropped is how many entries were not written since the start.
func (l *Log) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// run writes what waits until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	var w writer
	var lines []byte
	for {
		l.mu.Lock()
		for len(l.waiting) == 0 && !l.closed {
			l.work.Wait()
		}
		lines, l.waiting = l.waiting, lines[:0]
		dropped, closed := l.dropped, l.closed
		l.dropped = 0
		l.room.Broadcast()
		l.mu.Unlock()
		if closed && len(lines) == 0 && dropped == 0 {
			return
		}
		if dropped > 0 {
			lines = fmt.Appendf(lines, "timestamp:%d|type:DROPPED|category:OTHER|count:%d\n", time.Now().UnixMilli(),
				dropped)
		}
		lost := uint64(w.write(l, lines))
		if lost == 0 {
			continue
		}
		l.mu.Lock()
		if dropped > 0 { // the line that tells of them, the last, is lost, too
			lost--
			l.dropped += dropped
		}
		l.drop(lost)
		l.mu.Unlock()
		if closed {
			return
		}
	}
}

// writer is what run knows of the disk.
type writer struct {
	failing bool // the last write failed
	torn    bool // the last line that was written is not whole
}

// write writes lines, and returns how many of them it could not. With Block it tries until it can, or the log is
// closed.
func (w *writer) write(l *Log, lines []byte) (lost int) {
	for {
		n, err := 0, error(nil)
		if w.torn && !l.o.Block {
			_, err = l.out.Write([]byte{'\n'})
		}
		if err == nil {
			n, err = l.out.Write(lines)
			w.torn = n > 0 && lines[n-1] != '\n'
		}
		if err == nil {
			w.failing = false
			return 0
		}
		if !w.failing {
			l.log.LogAttrs(context.Background(), slog.LevelError, "audit log not written",
				slog.String("error", err.Error()))
		}
		w.failing, lines = true, lines[n:]
		if l.o.Block {
			select {
			case <-l.closing:
			case <-time.After(againAfter):
				continue
			}
		}
		return bytes.Count(lines, []byte{'\n'})
	}
}

// Close writes what waits and closes the log. Entries after it are dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errors.New("the audit log is closed already")
	}
	l.closed = true
	close(l.closing)
	l.room.Broadcast()
	l.work.Broadcast()
	l.mu.Unlock()
	<-l.done
	return l.out.Close()
}
