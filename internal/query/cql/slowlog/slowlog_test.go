// SPDX-License-Identifier: Apache-2.0

package slowlog

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ilion-db/ilion/test/fakeclock"
)

// clock is a manual clock.
type clock struct{ now time.Time }

func (c *clock) newLog(after time.Duration, bytes int) *Log {
	return New(Options{Threshold: after, MaxBytes: bytes, Clock: fakeclock.Func(func() time.Time { return c.now })})
}

// TestLog checks that a request is slow if the duration is at least the threshold, and that no request is slow if the
// threshold is 0. The test also checks the order and the grouping of requests in reports. Summaries must contain each
// request once.
func TestLog(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	l := c.newLog(time.Second, 0)
	if l.IsSlow(time.Second-1) || !l.IsSlow(time.Second) || (*Log)(nil).IsSlow(time.Hour) ||
		c.newLog(0, 0).IsSlow(time.Hour) {
		t.Error("something is slow that is not, or the other way round")
	}
	for i, took := range []time.Duration{1, 3, 2} {
		c.now = c.now.Add(time.Second)
		l.Record(took*time.Second, func() Request {
			return Request{Statement: fmt.Sprint("s", i%2), Keyspace: "ks", Table: "t"}
		})
	}
	a := l.Report("n")
	if len(a.Requests) != 3 || a.Requests[0].Millis != 2000 || a.Requests[2].At != time.Unix(1001, 0) ||
		a.Requests[0].Node != "n" || a.Slow != 3 || a.ThresholdMillis != 1000 {
		t.Errorf("%+v", a)
	}
	if s := a.Statements; len(s) != 2 || s[0].Statement != "s0" && s[0].Statement != "s1" {
		t.Errorf("%+v", s)
	}
	for _, s := range a.Statements {
		if s.Statement == "s0" && (s.Count != 2 || s.MinMillis != 1000 || s.MeanMillis != 1500 || s.MaxMillis != 2000 ||
			s.Last != time.Unix(1003, 0)) {
			t.Errorf("%+v", s)
		}
	}
	whole := Merge(a, l.Report("m"))
	if len(whole.Requests) != 6 || whole.Slow != 6 || whole.Statements[0].Count+whole.Statements[1].Count != 6 {
		t.Errorf("two nodes tell %+v", whole)
	}
	if n, slowest := l.Summarize(); n != 3 || slowest.Millis != 3000 {
		t.Errorf("%d were slow, the slowest took %v", n, slowest)
	}
	if n, _ := l.Summarize(); n != 0 {
		t.Errorf("%d were slow twice", n)
	}
}

// TestBounds checks (SW1) and (SW3) with many slow requests with long texts. The memory must not exceed the limit. Most
// requests must only be counted, without a call of describe.
func TestBounds(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	const most = 100_000
	l := c.newLog(1, most)
	asked := 0
	for second := range 10 {
		for range 10 * maxPerSecond {
			l.Record(time.Second, func() Request {
				asked++
				return Request{Statement: Redact(strings.Repeat(fmt.Sprint("x", second, " "), 10_000)), User: "u"}
			})
		}
		c.now = c.now.Add(time.Second)
	}
	size := 0
	for _, r := range l.requests[l.head:] {
		size += r.bytes()
	}
	if size > most || size != l.size || size < most/2 || len(l.requests) > 4*most/requestOverhead {
		t.Errorf("%d bytes are kept, %d counted, in %d places", size, l.size, len(l.requests))
	}
	if a := l.Report("n"); asked != 10*maxPerSecond || a.Omitted != 10*9*maxPerSecond ||
		len(a.Requests) > MaxRequests ||
		len(a.Statements) > MaxStatements {
		t.Errorf("%d were looked at, %d left out, %d told", asked, a.Omitted, len(a.Requests))
	}
	many := Report{}
	for i := range 1000 {
		many.Requests = append(many.Requests, Request{})
		many.Statements = append(many.Statements, Statement{Statement: fmt.Sprint(i), Count: 1})
	}
	if a := Merge(many, many); len(a.Requests) != MaxRequests || len(a.Statements) != MaxStatements {
		t.Errorf("%d requests and %d statements are told", len(a.Requests), len(a.Statements))
	}
}

// TestRedact checks (SW4). The redacted text must not contain constants or control characters, and the length must be
// limited.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT * FROM t WHERE k = 'secret' AND n = 42":            "SELECT * FROM t WHERE k = ? AND n = ?",
		"CREATE ROLE r WITH PASSWORD = 'secret' AND LOGIN = true":  "CREATE ROLE r WITH PASSWORD = ? AND LOGIN = ?",
		"SELECT * /* don't */ FROM t WHERE k = 'secret'":           "SELECT * FROM t WHERE k = ?",
		"SELECT \"it's\" FROM t -- isn't\n WHERE k = 'secret'":     `SELECT "it's" FROM t WHERE k = ?`,
		"SELECT * FROM t WHERE d = P1Y2M AND b = TRUE // 'secret":  "SELECT * FROM t WHERE d = ? AND b = ?",
		"SELECT * FROM t WHERE v = \"secret":                       "SELECT * FROM t WHERE v = ?",
		"INSERT INTO t (k)\n\tVALUES ('it''s \x1b[2J secret')":     "INSERT INTO t (k) VALUES (?)",
		"SELECT \"a\x1b]0;x\x07\u009b2J\" FROM t":                  `SELECT "a ]0;x 2J" FROM t`,
		"SELECT 'secret that does not end":                         "SELECT ?",
		"SELECT $$secret$$, 0xdeadbeef, 1.5e10 FROM t1":            "SELECT ?, ?, ? FROM t1",
		"SELECT 6ba7b810-9dad-11d1-80b4-00c04fd430c8, \xff FROM t": "SELECT ?, ? FROM t",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{strings.Repeat("é ", 10_000), "SELECT '" + strings.Repeat("secret", 10_000),
		strings.Repeat("é", 10_000), strings.Repeat("\xff", 10_000)} {
		got := Redact(text)
		if len(got) > maxTextBytes+4 || !utf8.ValidString(got) || strings.Contains(got, "secret") ||
			!strings.HasSuffix(got, " ...") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}
