// SPDX-License-Identifier: Apache-2.0

// Package slow keeps the requests of a node that took longer than a bound, the newest of them, in a fixed amount of
// memory.
//
// Guarantees: (SW1) what is kept takes no more than Options.Bytes, whatever clients send, and what is told of it no
// more than RequestsMost requests and StatementsMost statements; (SW2) a request that was not slow costs a comparison;
// (SW3) a node whose requests are all slow spends next to nothing on saying so: beyond eachSecond they are counted, and
// nothing else; (SW4) no constant of a statement and no value bound to it is kept. The package measures nothing itself
// and knows no statement but as text. Start at Log.
package slowlog

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/ilion-db/ilion/internal/query/parser"
)

const (
	// RequestsMost and StatementsMost bound an Answer.
	MaxRequests, MaxStatements = 500, 200
	// eachSecond is how many slow requests are looked at in a second.
	maxPerSecond = 100
	// textMax bounds what is shown of a statement, textLooked what is looked at of it, in bytes.
	maxTextBytes, maxScannedBytes = 1 << 10, 2 << 10
	// requestBytes is about what a request takes beside its texts.
	requestOverhead = 256
)

// Options of a Log.
type Options struct {
	// After is from how long on a request is slow; 0: none is.
	Threshold time.Duration
	// Bytes bounds what is kept; 1 MiB if 0.
	MaxBytes int
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Request is one that was slow, without its values.
type Request struct {
	// At is when it ended, Node the node that was asked.
	At   time.Time `json:"at"`
	Node string    `json:"node"`
	// Statement is as Shown has it; Keyspace and Table are empty where it is about none.
	Statement string `json:"statement"`
	Keyspace  string `json:"keyspace"`
	Table     string `json:"table"`
	// User is the role, empty where nobody has to log in; Client is the address it came from.
	User        string  `json:"user"`
	Client      string  `json:"client"`
	Millis      float64 `json:"ms"`
	Consistency string  `json:"consistency"`
	// Rows were answered, and More says that there are more pages.
	Rows      int     `json:"rows"`
	MorePages bool    `json:"more_pages"`
	Units     float64 `json:"request_units"`
	// Outcome is done, timeout, unavailable, overloaded, not allowed or failed.
	Outcome string `json:"outcome"`
}

// Log keeps slow requests. It is safe for concurrent use; nil keeps none.
type Log struct {
	o Options
	// noted counts what was looked at in second.
	second, recorded   atomic.Int64
	slowCount, omitted atomic.Uint64

	mu sync.Mutex
	// requests are those from head on, the oldest first; size is what they take.
	requests   []Request
	head, size int
	// slowest is the slowest since Digest, and logged what Log.slow was then.
	slowest    Request
	summarized uint64
}

// New makes a log that is empty.
func New(o Options) *Log {
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Log{o: o}
}

// Is reports whether a request that took so long is slow.
func (l *Log) IsSlow(took time.Duration) bool {
	return l != nil && l.o.Threshold > 0 && took >= l.o.Threshold
}

// Count is how many were slow since the start.
func (l *Log) Count() uint64 {
	if l == nil {
		return 0
	}
	return l.slowCount.Load()
}

// Note keeps a slow request, of which describe says what it was; it is not asked where there are too many.
func (l *Log) Record(took time.Duration, describe func() Request) {
	l.slowCount.Add(1)
	now := l.o.Now()
	if s := now.Unix(); l.second.Swap(s) != s {
		l.recorded.Store(0)
	}
	if l.recorded.Add(1) > maxPerSecond {
		l.omitted.Add(1)
		return
	}
	r := describe()
	r.At, r.Millis = now, float64(took.Microseconds())/1000
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Millis >= l.slowest.Millis {
		l.slowest = r
	}
	l.requests = append(l.requests, r)
	for l.size += r.bytes(); l.size > l.o.MaxBytes; l.head++ {
		l.size -= l.requests[l.head].bytes()
		l.requests[l.head] = Request{}
	}
	if l.head > len(l.requests)/2 {
		n := copy(l.requests, l.requests[l.head:])
		clear(l.requests[n:])
		l.requests, l.head = l.requests[:n], 0
	}
}

func (r *Request) bytes() int {
	return requestOverhead + len(r.Statement) + len(r.User) + len(r.Client)
}

// Digest is what there is to be logged: how many requests were slow since the last digest, and the slowest of them.
func (l *Log) Summarize() (count uint64, slowest Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.slowCount.Load()
	count, slowest = now-l.summarized, l.slowest
	l.summarized, l.slowest = now, Request{}
	return count, slowest
}

// Statement is what slow requests of one statement have in common.
type Statement struct {
	Statement string `json:"statement"`
	Keyspace  string `json:"keyspace"`
	Table     string `json:"table"`
	// Count, and the rest, is of the requests that are kept.
	Count      uint64    `json:"count"`
	MinMillis  float64   `json:"min_ms"`
	MeanMillis float64   `json:"mean_ms"`
	MaxMillis  float64   `json:"max_ms"`
	Last       time.Time `json:"last"`
}

// Answer is what a log tells, or those of several nodes together.
type Report struct {
	// AfterMillis is from how long on a request is slow; 0: none is.
	ThresholdMillis float64 `json:"slow_after_ms"`
	// Slow is how many were since the nodes started, Omitted how many of them were counted only.
	Slow    uint64 `json:"slow"`
	Omitted uint64 `json:"omitted"`
	// Statements are those that took most time together first; Requests are the newest first.
	Statements []Statement `json:"statements"`
	Requests   []Request   `json:"requests"`
	// Silent are the nodes that did not answer.
	Unreachable []string `json:"silent"`
}

// Answer tells what is kept of this node.
func (l *Log) Report(node string) Report {
	out := Report{ThresholdMillis: float64(l.o.Threshold.Microseconds()) / 1000, Slow: l.slowCount.Load(), Omitted: l.omitted.Load()}
	l.mu.Lock()
	kept := slices.Clone(l.requests[l.head:])
	l.mu.Unlock()
	slices.Reverse(kept)
	for i := range kept {
		r := &kept[i]
		r.Node = node
		out.Statements = append(out.Statements, Statement{Statement: r.Statement, Keyspace: r.Keyspace, Table: r.Table,
			Count: 1, MinMillis: r.Millis, MeanMillis: r.Millis, MaxMillis: r.Millis, Last: r.At})
	}
	out.Requests = kept
	out.trim()
	return out
}

// Merge is what several nodes tell.
func Merge(answers ...Report) (out Report) {
	for i := range answers {
		a := &answers[i]
		out.ThresholdMillis = max(out.ThresholdMillis, a.ThresholdMillis)
		out.Slow, out.Omitted = out.Slow+a.Slow, out.Omitted+a.Omitted
		out.Statements = append(out.Statements, a.Statements...)
		out.Requests = append(out.Requests, a.Requests...)
	}
	out.trim()
	return out
}

// trim adds up what is of one statement, sorts, and cuts at the bounds.
func (a *Report) trim() {
	type name struct{ statement, keyspace, table string }
	of, list := map[name]int{}, []Statement{}
	for _, s := range a.Statements {
		at, known := of[name{s.Statement, s.Keyspace, s.Table}]
		if !known {
			of[name{s.Statement, s.Keyspace, s.Table}] = len(list)
			list = append(list, s)
			continue
		}
		t := &list[at]
		all := t.MeanMillis*float64(t.Count) + s.MeanMillis*float64(s.Count)
		t.Count += s.Count
		t.MeanMillis = all / float64(t.Count)
		t.MinMillis, t.MaxMillis = min(t.MinMillis, s.MinMillis), max(t.MaxMillis, s.MaxMillis)
		if s.Last.After(t.Last) {
			t.Last = s.Last
		}
	}
	took := func(s *Statement) float64 { return s.MeanMillis * float64(s.Count) }
	slices.SortFunc(list, func(x, y Statement) int {
		return cmp.Or(cmp.Compare(took(&y), took(&x)), cmp.Compare(x.Statement, y.Statement))
	})
	a.Statements = list[:min(len(list), MaxStatements)]
	slices.SortStableFunc(a.Requests, func(x, y Request) int { return y.At.Compare(x.At) })
	a.Requests = append([]Request{}, a.Requests[:min(len(a.Requests), MaxRequests)]...)
}

// Shown is a statement as operators see it, who need not be allowed to see data: without constants, on one line,
// without control characters, and cut where it is long.
func Redact(text string) string {
	looked := text[:min(len(text), maxScannedBytes)]
	looked = strings.ToValidUTF8(parser.WithoutConstants(looked), "?")
	looked = strings.Join(strings.FieldsFunc(looked, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(looked) <= maxTextBytes && len(text) <= maxScannedBytes {
		return looked
	}
	return strings.ToValidUTF8(looked[:min(len(looked), maxTextBytes)], "") + " ..."
}
