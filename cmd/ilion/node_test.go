// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// TestConfirmed checks that only the answer yes removes a node from the cluster. The question must contain the name of
// the node.
func TestConfirmed(t *testing.T) {
	s := &admin.Status{Nodes: []admin.NodeStatus{
		{ID: "abcd1234ffff", CQL: "127.0.0.1:9042", State: "up", Replicas: 12},
		{ID: "99990000ffff", CQL: "127.0.0.2:9042"},
	}}
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "\n": false, "": false,
		"n\n": false, "yep\n": false} {
		var out strings.Builder
		err := confirmNode(strings.NewReader(answer), &out, s, "ABCD", "It is taken out of the cluster for good.")
		if want && err != nil || !want && !errors.Is(err, errDeclined) {
			t.Errorf("%q: %v", answer, err)
		}
		text := out.String()
		if !strings.Contains(text, "Node abcd1234 at 127.0.0.1:9042 is up and has 12 replicas") ||
			strings.Contains(text, "9999") {
			t.Errorf("the question: %s", text)
		}
	}
}

// TestUnknownNode checks that the command fails without prompting unless exactly one node matches.
func TestUnknownNode(t *testing.T) {
	s := &admin.Status{Nodes: []admin.NodeStatus{{ID: "abcd1234"}, {ID: "abcd9999"}}}
	for _, name := range []string{"ffff", "abcd"} {
		var out strings.Builder
		if err := confirmNode(strings.NewReader("y\n"), &out, s, name, "Removed."); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, &out)
		}
	}
}

// TestNullDeviceIsNoTerminal checks that /dev/null is not treated as a terminal. A command whose input is /dev/null
// must not ask a question and must not treat the missing answer as yes.
func TestNullDeviceIsNoTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) {
		t.Errorf("%s is recognized as a terminal", os.DevNull)
	}
}

// TestTimeLeft checks that the remaining time is estimated from the rate at which the amount of data on the node has
// decreased.
func TestTimeLeft(t *testing.T) {
	var l timeLeft
	now := time.Unix(0, 0)
	for _, c := range []struct {
		passed time.Duration
		bytes  uint64
		want   string
	}{
		{0, 900, ""},
		{time.Second, 1000, ""}, // the amount of data is increasing
		{2 * time.Second, 900, ", about 9s left"},
		{11 * time.Second, 100, ", about 1s left"},
		{21 * time.Second, 100, ", about 2s left"},
	} {
		if got := l.after(c.bytes, now.Add(c.passed)); got != c.want {
			t.Errorf("%v: %q, want %q", c.passed, got, c.want)
		}
	}
	l = timeLeft{began: now, most: 1000}
	if got := l.after(999, now.Add(3*time.Second)); got != ", about 50m0s left" {
		t.Error(got)
	}
}

// TestProgress checks that a command shows the remaining work of the operation. The command must end when the operation
// is complete or canceled.
func TestProgress(t *testing.T) {
	s := func(state string, replicas, leading int) *admin.Status {
		return &admin.Status{Nodes: []admin.NodeStatus{{ID: "99990000ffff", State: "up"},
			{ID: "abcd1234ffff", State: state, Replicas: replicas, Leading: leading}}}
	}
	for _, c := range []struct {
		s    *admin.Status
		what string
		want string
		done bool
	}{
		{s("draining", 12, 3), "drain", "node abcd1234 leads 3 of its 12 replicas", false},
		{s("draining", 12, 0), "drain", "node abcd1234 leads no partitions and can be stopped", true},
		{s("leaving", 12, 0), "decommission", "node abcd1234 is leaving and has 12 replicas", false},
		{s("leaving, down", 2, 0), "decommission", "node abcd1234 is leaving, down and has 2 replicas", false},
		{&admin.Status{}, "decommission", "node ABCD has left the cluster", true},
		{s("up", 12, 3), "decommission", "node abcd1234 is up: the operation was canceled", true},
	} {
		if line, done := progress(c.s, "ABCD", c.what, &timeLeft{}); line != c.want || done != c.done {
			t.Errorf("%q, %v; want %q, %v", line, done, c.want, c.done)
		}
	}
}
