// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion"
)

// The following code is an exact copy of the example in docs/change-feed.md.

// follow passes the changes of shop.orders after state to handle. A nil state is the start of the feed. follow returns
// the state after the last change.
func follow(s *gocql.Session, state []byte, handle func(change map[string]any) error) ([]byte, error) {
	for {
		iter := s.Query(`SELECT customer, number, total FROM shop.orders
			WHERE cosmos_changefeed_start_time() = 0 AND cosmos_changefeed_mode() = 'all'`).
			PageSize(100).PageState(state).Iter() // an explicit paging state disables automatic paging
		changes, err := iter.SliceMap()
		if err != nil {
			return state, err
		}
		for _, change := range changes {
			if err := handle(change); err != nil {
				return state, err // the next call reads this page again
			}
		}
		state = iter.PageState() // store it together with the results of handle
		if len(changes) == 0 {
			return state, nil
		}
	}
}

// TestChangeFeed checks that the examples of docs/change-feed.md work. It runs a consumer in Go, and a consumer in
// Python if -python names an interpreter. They read the changes of a table in pages, stop, and resume.
func TestChangeFeed(t *testing.T) {
	t.Parallel()
	db, err := ilion.Start(t.Context(), ilion.Options{InitialPartitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := connect(t, db.CQLAddr().String(), 4)
	exec(t, s, "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	exec(t, s, "CREATE TABLE shop.orders (customer text, number int, total int, PRIMARY KEY (customer, number)) "+
		"WITH cdc = true")
	const orders = 250
	for i := range orders {
		exec(t, s, "INSERT INTO shop.orders (customer, number, total) VALUES (?, ?, ?)", fmt.Sprint("c", i%7), i, i)
	}
	exec(t, s, "UPDATE shop.orders SET total = 1000 WHERE customer = 'c1' AND number = 1")
	exec(t, s, "DELETE FROM shop.orders WHERE customer = 'c2' AND number = 2")
	var got []string
	note := func(change map[string]any) error {
		got = append(got, fmt.Sprint(change["operation"], " ", change["number"], " ", change["previous(total)"]))
		return nil
	}
	state, err := follow(s, nil, note)
	if err != nil || len(got) != orders+2 || !slices.Contains(got, "replace 1 1") ||
		!slices.Contains(got, "delete 2 2") {
		t.Errorf("%d changes, %v: %q", len(got), err, got)
	}
	got = nil
	if state, err = follow(s, state, note); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	exec(t, s, "INSERT INTO shop.orders (customer, number, total) VALUES ('c1', 1, 5)")
	if _, err = follow(s, state, note); err != nil || !slices.Equal(got, []string{"replace 1 1000"}) {
		t.Errorf("%q, %v", got, err)
	}
	t.Run("document", func(t *testing.T) {
		doc, err := os.ReadFile("../../docs/change-feed.md")
		if err != nil {
			t.Fatal(err)
		}
		for file, from := range map[string]string{"changefeed_test.go": "func follow(",
			"../compat/change_feed.py": "def follow("} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(text), from)
			body, _, found := strings.Cut(rest, "\n\n")
			if strings.HasSuffix(file, ".py") {
				body, _, found = strings.Cut(rest, "\n\n\n")
			}
			if !found || !strings.Contains(string(doc), from+body) {
				t.Errorf("the document does not have %s%s", from, body)
			}
		}
	})
	t.Run("python", func(t *testing.T) {
		if *python == "" {
			t.Skip("give -python")
		}
		host, port, err := net.SplitHostPort(db.CQLAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		out, err := osexec.CommandContext(t.Context(), *python, "../compat/change_feed.py", host, port).CombinedOutput()
		if want := fmt.Sprintf("%d changes, then 0, then 1\n", orders+3); err != nil || string(out) != want {
			t.Errorf("%s, want %s: %v", out, want, err)
		}
	})
}
