// SPDX-License-Identifier: Apache-2.0

// Package audit writes down who asked for what, from where, and what became of it: a line for each request, to files of
// bounded size and number or to syslog.
//
// Guarantees: (AL1) Write never waits for the disk, unless Block asks that nothing be lost; (AL2) what waits to be
// written is bounded, and what was dropped is counted and written down; (AL3) nothing that a client sends begins a line
// or a field of its own.
//
// It does not know what statements mean: passwords are gone from the entries that it is given. Start at Log.Write.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
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
	done    chan struct{}
}

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
	l := &Log{o: o, log: log, done: make(chan struct{})}
	l.room.L, l.work.L = &l.mu, &l.mu
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
		e.Operation = withoutLiterals(e.Operation)
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
		l.dropped++
		l.total++
		return
	}
	l.waiting = line
	l.work.Signal()
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
	var lines []byte
	failing := false
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
		if dropped > 0 {
			lines = fmt.Appendf(lines, "timestamp:%d|type:DROPPED|category:OTHER|count:%d\n", time.Now().UnixMilli(),
				dropped)
		}
		if _, err := l.out.Write(lines); err != nil {
			if !failing {
				l.log.LogAttrs(context.Background(), slog.LevelError, "audit log not written",
					slog.String("error", err.Error()))
			}
			failing = true
		} else {
			failing = false
		}
		if closed && len(lines) == 0 {
			return
		}
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
	l.room.Broadcast()
	l.work.Broadcast()
	l.mu.Unlock()
	<-l.done
	return l.out.Close()
}
