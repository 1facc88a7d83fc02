// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// awaitFunc implements container.Metadata with a function that is called as the read barrier.
type awaitFunc func() error

func (f awaitFunc) AwaitLatest(context.Context) error { return f() }

// TestRecheck checks (SE7) on a node that has missed a schema change. For every entry point, a request for an unknown
// object must be bound again after the node has received the change. If the read barrier times out, the request and
// subsequent requests must be rejected. The error must not state that a keyspace or table does not exist.
func TestRecheck(t *testing.T) {
	var missed []string // statements that the read barrier executes
	var w *fixture
	var down error
	asked, now := 0, time.Now()
	w = newFixture(t, Options{Clock: fakeclock.Func(func() time.Time { return now }),
		Metadata: awaitFunc(func() error {
			if asked++; down != nil {
				return down
			}
			for len(missed) > 0 {
				text := missed[0]
				missed = missed[1:]
				w.query(t, text)
			}
			return nil
		})})
	say := func(text string) error { return w.try(text) }
	prepare := func(text string) error {
		return w.run(w.client, (*Session).Prepare, Request{Text: []byte(text)}).Err
	}
	batch := func(text string) error {
		return w.run(w.client, (*Session).Batch, Request{Statements: []BatchStatement{{Text: []byte(text)}}}).Err
	}
	for _, test := range []struct {
		name, change, text string
		how                func(string) error
	}{
		{"write", "CREATE TABLE ks.a (k int PRIMARY KEY, v int)", "INSERT INTO ks.a (k, v) VALUES (1, 1)", say},
		{"read", "CREATE TABLE ks.b (k int PRIMARY KEY, v int)", "SELECT * FROM ks.b", say},
		{"column", "ALTER TABLE ks.a ADD w int", "SELECT w FROM ks.a", say},
		{"prepare", "CREATE TABLE ks.c (k int PRIMARY KEY, v int)", "SELECT * FROM ks.c", prepare},
		{"batch", "CREATE TABLE ks.d (k int PRIMARY KEY, v int)", "INSERT INTO ks.d (k, v) VALUES (1, 1)", batch},
		{"use", "CREATE KEYSPACE k2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "USE k2",
			say},
		{"describe", "CREATE TABLE ks.e (k int PRIMARY KEY)", "DESCRIBE TABLE ks.e", say},
		{"truncate", "CREATE TABLE ks.f (k int PRIMARY KEY)", "TRUNCATE ks.f", say},
	} {
		t.Run(test.name, func(t *testing.T) {
			missed = append(missed, test.change)
			down = errors.New("no leader")
			for range 2 {
				_, denied := errors.AsType[*dberr.Invalid](test.how(test.text))
				if denied != (test.name == "column") {
					t.Errorf("without an answer it is denied: %v", denied)
				}
			}
			down, now = nil, now.Add(barrierPause)
			if err := test.how(test.text); err != nil || len(missed) > 0 {
				t.Errorf("%v", err)
			}
		})
	}
	was := asked
	down = errors.New("no leader")
	for range 3 {
		if w.try("SELECT * FROM ks.nothing") == nil || asked > was+1 {
			t.Fatalf("%d questions, where one had no answer", asked-was)
		}
	}
	was = asked
	now = now.Add(barrierPause)
	for _, text := range []string{"SELECT * FROM ks.a", "SELEKT", "INSERT INTO ks.a (k, v) VALUES (2, 2)"} {
		_ = w.try(text)
	}
	if asked != was {
		t.Error("the node asked though nothing was missing, or could be")
	}
}
