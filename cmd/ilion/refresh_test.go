// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// hostile is a string that a client may use as a name or a key. It contains line breaks, sequences that set the title
// and clear the screen, characters that reverse the text direction, and invalid UTF-8.
const hostile = "a\nb\tc\x1b]0;x\x07\x1b[2J\u009b2J\u202ed\u2028e\x7f\xffz"

// shownTo returns the output of a command as text or as JSON.
func shownTo(t *testing.T, asJSON bool, document any, text func(io.Writer)) string {
	t.Helper()
	var out bytes.Buffer
	w := refreshOptions{JSON: asJSON}
	err := w.show(&out, func(context.Context) (any, func(io.Writer), error) { return document, text, nil })
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestNothingHostileIsPrinted checks that commands do not print control characters from the names, statements, or data
// of clients. The test covers text and JSON output. JSON output must preserve the original string.
func TestNothingHostileIsPrinted(t *testing.T) {
	sessions := &catalog.Sessions{Connections: 2, Sessions: []catalog.Session{{ID: hostile, Address: hostile,
		State: hostile, User: hostile, Driver: hostile, Keyspace: hostile, Statement: hostile, Millis: 1500}},
		Silent: []string{hostile}}
	requests := &slowlog.Report{ThresholdMillis: 1, Slow: 5, Omitted: 1, Unreachable: []string{hostile},
		Requests: []slowlog.Request{{Node: hostile, Statement: hostile, User: hostile, Client: hostile,
			Table: hostile}},
		Statements: []slowlog.Statement{{Statement: hostile, Keyspace: hostile}}}
	ring := []catalog.RingNode{{Node: hostile, Address: hostile, Zone: hostile, Tokens: []int64{1}}}
	places := &catalog.Endpoints{Table: hostile, Leader: hostile,
		Replicas: []catalog.EndpointReplica{{Node: hostile, Address: hostile, State: hostile}}}
	report := &admin.TableReport{Name: hostile, Kind: "table", LargeKeys: []usage.LargePartition{{Name: hostile}},
		HotKeys: []admin.HotKey{{Key: hostile}}, Indexes: []admin.IndexReport{{Name: hostile, Target: hostile}},
		Views: []admin.ViewReport{{Name: hostile, Due: 1}}}
	parts := []admin.TableStatus{{Name: hostile, Partitions: []admin.PartitionStatus{{Hot: hostile, Leader: hostile}}}}
	status := &admin.Status{Cluster: hostile, Problems: []string{hostile}, Notes: []string{hostile},
		Nodes: []admin.NodeStatus{{ID: hostile, Zone: hostile}}}
	changes := []admin.ChangeStatus{{Kind: hostile, Table: hostile, Cause: hostile, Ended: hostile}}
	newest, summed := slowQueriesCommand{Limit: 5}, slowQueriesCommand{Limit: 5, Statements: true}
	for name, c := range map[string]struct {
		document any
		text     func(io.Writer)
		lines    int // 0 if the lines are not counted
	}{
		"sessions":   {sessions, func(out io.Writer) { printSessions(out, sessions, time.Now()) }, 5},
		"slow":       {requests, func(out io.Writer) { newest.print(out, requests) }, 5},
		"statements": {requests, func(out io.Writer) { summed.print(out, requests) }, 5},
		"ring":       {ring, func(out io.Writer) { printRing(out, ring, true) }, 5},
		"endpoints":  {places, func(out io.Writer) { printEndpoints(out, places) }, 4},
		"table":      {report, func(out io.Writer) { printTable(out, report) }, 0},
		"partitions": {parts, func(out io.Writer) { printPartitions(out, parts) }, 2},
		"status":     {status, func(out io.Writer) { printStatus(out, status) }, 0},
		"history":    {changes, func(out io.Writer) { printHistory(out, changes) }, 2},
	} {
		for _, asJSON := range []bool{false, true} {
			got := shownTo(t, asJSON, c.document, c.text)
			if i := strings.IndexFunc(got, func(r rune) bool {
				return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
			}); i >= 0 {
				t.Errorf("%s: the output contains the control sequence %q", name, got[i:])
			}
			if n := strings.Count(got, "\n"); !asJSON && c.lines > 0 && n != c.lines {
				t.Errorf("%s has %d lines:\n%s", name, n, got)
			}
			if asJSON && !json.Valid([]byte(got)) {
				t.Errorf("%s is not JSON:\n%s", name, got)
			}
		}
	}
	var back catalog.Sessions
	if err := json.Unmarshal([]byte(shownTo(t, true, sessions, nil)), &back); err != nil ||
		back.Sessions[0].User != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestWatch checks that a failed refresh is reported and followed by the next refresh. JSON output must contain one
// document per line. The command must end when the output is closed.
func TestWatch(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		n := 0
		out := &endsAfter{lines: 3}
		w := refreshOptions{JSON: asJSON, Watch: 1}
		err := w.show(out, func(context.Context) (any, func(io.Writer), error) {
			if n++; n == 2 {
				return nil, nil, errors.New("nobody\x1b is there")
			}
			return map[string]int{"n": n}, func(out io.Writer) { _, _ = io.WriteString(out, "text\n") }, nil
		})
		want := "text\n\nnobody? is there\n\ntext\n"
		if asJSON {
			want = "{\"n\":1}\n{\"error\":\"nobody\\u001b is there\"}\n{\"n\":3}\n"
		}
		if !errors.Is(err, io.ErrClosedPipe) || out.String() != want {
			t.Errorf("%v, %q, want %q", err, out, want)
		}
	}
	failed := errors.New("failed")
	if err := (refreshOptions{Watch: 1}).show(io.Discard, func(context.Context) (any, func(io.Writer), error) {
		return nil, nil, failed
	}); !errors.Is(err, failed) {
		t.Errorf("a first look that failed: %v", err)
	}
}

// endsAfter accepts a number of writes and then returns an error for a closed pipe.
type endsAfter struct {
	bytes.Buffer
	lines int
}

func (e *endsAfter) Write(b []byte) (int, error) {
	if e.lines--; e.lines < 0 {
		return 0, io.ErrClosedPipe
	}
	return e.Buffer.Write(b)
}

// TestDrawLines checks that the number and the length of the lines do not exceed the size of the screen.
func TestDrawLines(t *testing.T) {
	var out bytes.Buffer
	if err := drawLines(&out, []string{"abcdef", "é", "third"}, 3, 2); err != nil {
		t.Fatal(err)
	}
	if want := home + "abc" + endOfLine + "é\x1b[K" + endOfScreen; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}
