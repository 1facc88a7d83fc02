// SPDX-License-Identifier: Apache-2.0

// Package slowlog keeps the most recent slow requests of a node in a bounded amount of memory. A request is slow if it
// took at least Options.Threshold.
//
// Guarantees:
//
//   - (SW1) The memory of the kept requests never exceeds Options.MaxBytes. A Report holds at most MaxRequests requests
//     and MaxStatements statements.
//   - (SW2) A request that is not slow costs one comparison.
//   - (SW3) Recording slow requests takes almost no time, even if all requests are slow. If the rate exceeds
//     maxPerSecond, further requests are only counted.
//   - (SW4) The log does not contain the constants or bound values of statements.
//
// The package does not measure durations and treats statements as text. Start reading at Log.
package slowlog

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

const (
	// MaxRequests is the maximum number of requests in a Report.
	MaxRequests = 500
	// MaxStatements is the maximum number of statements in a Report.
	MaxStatements = 200
	// maxPerSecond is the maximum number of recorded slow requests per second. Further requests are only counted.
	maxPerSecond = 100
	// maxTextBytes limits the redacted text of a statement. maxScannedBytes limits the part of the text that is
	// redacted.
	maxTextBytes, maxScannedBytes = 1 << 10, 2 << 10
	// requestOverhead is the approximate memory of a Request in bytes, excluding its texts.
	requestOverhead = 256
)

// Options configures a Log.
type Options struct {
	// Threshold is the minimum duration of a slow request. If Threshold is 0, no request is slow.
	Threshold time.Duration
	// MaxBytes limits the memory of the kept requests. The default is 1 MiB.
	MaxBytes int
	// Clock provides the current time. The default is sched.SystemClock.
	Clock sched.Clock
}

// Request describes a slow request. It does not contain values.
type Request struct {
	// At is the time at which the request ended. Node is the node that coordinated the request.
	At   time.Time `json:"at"`
	Node string    `json:"node"`
	// Statement is the result of Redact. If the statement does not refer to a table, Keyspace and Table are empty.
	Statement string `json:"statement"`
	Keyspace  string `json:"keyspace"`
	Table     string `json:"table"`
	// User is the role, or empty if authentication is off. Client is the address of the client.
	User        string  `json:"user"`
	Client      string  `json:"client"`
	Millis      float64 `json:"ms"`
	Consistency string  `json:"consistency"`
	// Rows is the number of returned rows. MorePages reports whether the result has further pages.
	Rows      int     `json:"rows"`
	MorePages bool    `json:"more_pages"`
	Units     float64 `json:"request_units"`
	// Outcome is one of done, timeout, unavailable, overloaded, not allowed, and failed.
	Outcome string `json:"outcome"`
}

// Log keeps slow requests. It is safe for concurrent use. A nil Log keeps no requests.
type Log struct {
	o Options
	// recorded is the number of requests that were recorded in the current second.
	second, recorded   atomic.Int64
	slowCount, omitted atomic.Uint64

	mu sync.Mutex
	// requests[head:] holds the kept requests in chronological order. size is the memory of these requests in bytes.
	requests   []Request
	head, size int
	// slowest is the slowest request since the last call of Summarize. summarized is the value of slowCount at the time
	// of this call.
	slowest    Request
	summarized uint64
}

// New returns an empty log.
func New(o Options) *Log {
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	if o.Clock == nil {
		o.Clock = sched.SystemClock
	}
	return &Log{o: o}
}

// IsSlow reports whether a request with this duration is slow.
func (l *Log) IsSlow(took time.Duration) bool {
	return l != nil && l.o.Threshold > 0 && took >= l.o.Threshold
}

// Count returns the number of slow requests since the start.
func (l *Log) Count() uint64 {
	if l == nil {
		return 0
	}
	return l.slowCount.Load()
}

// Record keeps a slow request. It calls describe only if the number of requests per second does not exceed the limit.
func (l *Log) Record(took time.Duration, describe func() Request) {
	l.slowCount.Add(1)
	now := l.o.Clock.Wall()
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

// Summarize returns the number of slow requests since the previous call and the slowest of these requests.
func (l *Log) Summarize() (count uint64, slowest Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.slowCount.Load()
	count, slowest = now-l.summarized, l.slowest
	l.summarized, l.slowest = now, Request{}
	return count, slowest
}

// Statement summarizes the slow requests with the same statement.
type Statement struct {
	Statement string `json:"statement"`
	Keyspace  string `json:"keyspace"`
	Table     string `json:"table"`
	// Count and the following fields cover only the kept requests.
	Count      uint64    `json:"count"`
	MinMillis  float64   `json:"min_ms"`
	MeanMillis float64   `json:"mean_ms"`
	MaxMillis  float64   `json:"max_ms"`
	Last       time.Time `json:"last"`
}

// Report is the content of one log, or the merged content of several logs.
type Report struct {
	// ThresholdMillis is the minimum duration of a slow request in milliseconds. If ThresholdMillis is 0, no request is
	// slow.
	ThresholdMillis float64 `json:"slow_after_ms"`
	// Slow is the number of slow requests since the nodes started. Omitted is the number of slow requests that were
	// only counted.
	Slow    uint64 `json:"slow"`
	Omitted uint64 `json:"omitted"`
	// Statements is sorted by total duration in descending order. Requests is sorted by time in descending order.
	Statements []Statement `json:"statements"`
	Requests   []Request   `json:"requests"`
	// Unreachable lists the nodes that did not respond.
	Unreachable []string `json:"silent"`
}

// Report returns the content of the log. Each request in the report contains node.
func (l *Log) Report(node string) Report {
	out := Report{ThresholdMillis: float64(l.o.Threshold.Microseconds()) / 1000, Slow: l.slowCount.Load(),
		Omitted: l.omitted.Load()}
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

// Merge combines the reports of several nodes.
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

// trim merges the entries of equal statements, sorts the lists, and truncates them to their limits.
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

// Redact returns the text of a statement for operators who may lack permission to see data. The result is a single line
// without constants and control characters. Long texts are truncated.
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
