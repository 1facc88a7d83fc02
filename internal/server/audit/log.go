// SPDX-License-Identifier: Apache-2.0

// Package audit writes the audit log. It writes one line per request with the user, the client address, the statement,
// and the outcome. The destination is a bounded number of size-limited files, or syslog.
//
// Guarantees: (AL1) Write never waits for the disk unless Block is set. With Block, no entries are lost. (AL2) The
// queue of unwritten entries is bounded. Dropped entries are counted, logged, and recorded in the audit log. (AL3) No
// client input can start a line or a field.
//
// The package does not parse statements. Passwords have been removed from the entries that it receives. Start reading
// at Log.Write.
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

	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Log is an audit log. A Log is safe for concurrent use.
type Log struct {
	o   Options
	out io.WriteCloser
	log *slog.Logger

	categories, users, keyspaces filter

	mu      sync.Mutex
	room    sync.Cond // signaled when waiting has free space or closed is set
	work    sync.Cond // signaled when waiting is not empty or closed is set
	waiting []byte    // complete lines; up to Options.QueueBytes
	closed  bool
	dropped uint64 // entries whose loss has not been recorded yet
	total   uint64
	said    time.Time // time at which dropped entries were last logged
	done    chan struct{}
	closing chan struct{} // closed when the log is closed
}

const (
	// sayEvery is the minimum interval between log messages about dropped entries.
	sayEvery = time.Minute
	// againAfter is the delay before a failed write is retried if Block is set.
	againAfter = 100 * time.Millisecond
)

// Open opens a log. dir is the directory of the log's files, unless the options specify another directory. log
// receives messages about lines that could not be written. If log is nil, these messages are discarded.
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
		l.out, err = openFiles(o.Dir, o.FileBytes, o.Sealer)
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

// wants reports whether the options select an entry with a category, a user, and a keyspace.
func (l *Log) wants(category, user, keyspace string) bool {
	return l.categories.has(category) && l.users.has(user) && (keyspace == "" || l.keyspaces.has(keyspace))
}

// Write writes an entry if the options select it.
func (l *Log) Write(e *Entry) {
	if !l.wants(e.Category, e.User, e.Keyspace) {
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

// drop counts dropped entries and periodically logs their number. The caller must hold mu.
func (l *Log) drop(n uint64) {
	l.dropped += n
	l.total += n
	if now := time.Now(); now.Sub(l.said) >= sayEvery {
		l.said = now
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "audit log entries dropped",
			slog.Uint64("dropped_since_start", l.total))
	}
}

// Dropped returns the number of dropped entries since the start.
func (l *Log) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// run writes queued entries until the log is closed.
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
		if dropped > 0 { // the last line, which reports the dropped entries, was also lost
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

// writer holds the state of the output.
type writer struct {
	failing bool // the last write has failed
	torn    bool // the last line is incomplete
}

// write writes lines and returns the number of lost lines. If Block is set, it retries until it succeeds or the log is
// closed. After the log has been closed, it retries once more.
func (w *writer) write(l *Log, lines []byte) (lost int) {
	for last := false; ; {
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
			l.log.LogAttrs(context.Background(), slog.LevelError, "audit log write failed",
				slog.String("error", err.Error()))
		}
		w.failing, lines = true, lines[n:]
		if l.o.Block && !last {
			select {
			case <-l.closing:
				last = true // try again, because the disk may work now
			case <-time.After(againAfter):
			}
			continue
		}
		return bytes.Count(lines, []byte{'\n'})
	}
}

// Close writes the queued entries and closes the log. Later entries are dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errors.New("the audit log is already closed")
	}
	l.closed = true
	close(l.closing)
	l.room.Broadcast()
	l.work.Broadcast()
	l.mu.Unlock()
	<-l.done
	return l.out.Close()
}
